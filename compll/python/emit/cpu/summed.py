# SPDX-License-Identifier: Apache-2.0
"""The part of a codec whose encoded values are summed without decoding (core/codec/summed_encoding.h)."""

from __future__ import annotations

from dataclasses import dataclass

from hipress.compll import ir
from hipress.compll.emit.bounds import emit_bound, emit_number
from hipress.compll.emit.cpu.encode import Encoding, encoding
from hipress.compll.emit.target import Target
from hipress.compll.emit.text import indented
from hipress.compll.passes import summed as halves
from hipress.compll.passes.vectors import Vectors


@dataclass(frozen=True)
class SummedCodec:
    """The texts of such a codec, all empty for another one."""

    base: str = ""
    definitions: str = ""
    members: str = ""
    methods: str = ""


def summed_codec(function: ir.Function, target: Target) -> SummedCodec:
    if function.summed is None:
        return SummedCodec()
    before = halves.statistics(function)
    statistics = encoding(before, target, "summarising")
    agreed = encoding(halves.with_agreed(function), target, "encoding_agreed")
    return SummedCodec(
        ", public SummedEncoding",
        statistics.definitions() + "\n" + agreed.definitions() + "\n",
        _members(function, statistics, agreed, emit_bound(before, statistics.vectors)),
        statistics.method("statisticsWith") + "\n" + agreed.method("encodeAgreedWith", reads="known") + "\n",
    )


def _members(function: ir.Function, statistics: Encoding, agreed: Encoding, bound: list[str]) -> str:
    summed = function.summed
    assert summed is not None
    most = emit_number(summed.most, Vectors(function))
    return f"""
  const SummedEncoding* summed() const override {{ return this; }}
  StatisticsReduction reduction() const override {{ return StatisticsReduction::k{summed.agreement.capitalize()}; }}
  int64_t mostLevel() const override {{ return {most}; }}
  size_t statisticsBytes(size_t n) const override {{
    if (n == 0) return 0;
{indented(chr(10).join(bound), 4)}
  }}
  size_t statistics(std::span<const float> input, const EncodeStates& states, const EncodeContext& context,
                    Bytes output) const override {{
    return {statistics.call("statisticsWith", "input, states, context, output")};
  }}
  size_t encodeAgreed(std::span<const float> input, ConstBytes known, const EncodeStates& states,
                      const EncodeContext& context, Bytes output) const override {{
    return {agreed.call("encodeAgreedWith", "input, known, states, context, output")};
  }}
"""
