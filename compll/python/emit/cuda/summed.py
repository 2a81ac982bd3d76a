# SPDX-License-Identifier: Apache-2.0
"""The part of a codec whose encoded values are summed without decoding (core/codec/summed_encoding.h), for GPUs."""

from __future__ import annotations

from dataclasses import dataclass, field

from hipress.compll import ir
from hipress.compll.emit.cuda.encode import encoding
from hipress.compll.emit.target import Target
from hipress.compll.emit.text import indented
from hipress.compll.passes import summed as halves


@dataclass(frozen=True)
class CudaSummed:
    """The texts of such a codec, without functions for another one."""

    kernels: str = ""
    listed: list[str] = field(default_factory=list)
    functions: str = ""
    table: str = "nullptr, nullptr, nullptr, nullptr"
    sorts: bool = False


def summed_codec(codec: str, function: ir.Function, target: Target, refusals: list[str]) -> CudaSummed:
    if function.summed is None:
        return CudaSummed()
    before = encoding(codec, halves.statistics(function), target, "statistics", "summarising", refusals)
    agreed = encoding(codec, halves.with_agreed(function), target, "agreed", "encoding_agreed", refusals)
    return CudaSummed(
        before.kernels + "\n" + agreed.kernels,
        [*before.listed, *agreed.listed],
        f"""{before.definition}
{agreed.definition}
inline size_t statisticsScratchBytes(const double* values, size_t count) {{
  return statisticsWith<false>(nullptr, count, 0, parameters(values), nullptr);
}}

inline size_t agreedScratchBytes(const double* values, size_t count, size_t agreedBytes) {{
  return agreedWith<false>(nullptr, count, agreedBytes, parameters(values), nullptr);
}}

inline void statistics(const cuda::CudaEncode& call, cuda::Stream stream) {{
{indented(before.start, 2)}
}}

inline void encodeAgreed(const cuda::CudaEncode& call, cuda::Stream stream) {{
{indented(agreed.start, 2)}
}}
""",
        "&codec::statisticsScratchBytes, &codec::statistics, &codec::agreedScratchBytes, &codec::encodeAgreed",
        before.sorts or agreed.sorts,
    )
