# SPDX-License-Identifier: Apache-2.0
"""Generated kernels that run on the processor give the interpreter's bytes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hipress.compll import Interpreter, compile_text
from tests.cases import each
from tests.compll.emit.cuda import compare
from tests.compll.emit.cuda.build import emit, host_library
from tests.compll.emit.cuda.programs import NAMES, SIZES, VARIANTS, program
from tests.compll.emit.cuda.table import Call, CudaCodec, Memory, Refused
from tests.compll.programs import BUILTIN, floats
from tests.tiers import usually

Library = Callable[[str], Path]

#: The built-in codecs, one example, and programs with what no built-in codec has. The others take as long to compile.
WITH_LENGTHY = usually([*BUILTIN, "eden", "sorts", "narrow", "prefixes", "blocks"], NAMES)


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    directory = tmp_path_factory.mktemp("cuda_on_host")
    return cache(lambda name: host_library(program(name), directory))


@pytest.mark.slow
@each("size", SIZES)
@pytest.mark.parametrize("name", WITH_LENGTHY)
def test_bytes_states_and_decoded_values(library: Library, name: str, size: int) -> None:
    for params in VARIANTS.get(name, [{}]):
        compare.same_steps(name, library(name), Memory(), size, params)


class Misaligned(Memory):
    """What is put into it lies four bytes behind a multiple of 256."""

    def put(self, values: Any) -> Any:
        kept = self.room(values.nbytes + 4)[4:]
        kept[:] = values.view(np.uint8)
        return kept


@pytest.mark.parametrize("name", ["int8", "int4", "fp4_e2m1", "bf16", "onebit", "qsgd", "natural", "topk"])
def test_tensors_at_any_multiple_of_four_bytes(library: Library, name: str) -> None:
    for size in (1, 1024, 5000):
        compare.same_steps(name, library(name), Misaligned(), size, {})
    if name in ONE_PASS:
        assert compare.same_sums(name, library(name), Misaligned(), 5000)


@each("block", [16, 24, 100, 1000, 1024, 1032, 5000])
@pytest.mark.parametrize("name", ["int8", "fp8_e4m3"])
def test_blocks_that_one_kernel_takes_and_others(library: Library, name: str, block: int) -> None:
    for size in (block - 1, block, 3 * block + 5, 9001):
        for params in ({"block": block}, {"block": block, "stochastic": True, "error_feedback": True}):
            compare.same_steps(name, library(name), Memory(), size, params)


#: Codecs of which one pass decodes a message.
ONE_PASS = {"int8", "int4", "onebit", "tbq", "terngrad", "qsgd", "natural", "u8bit", "fp8_e4m3", "bf16", "efsignsgd"}


@each("size", SIZES)
@pytest.mark.parametrize("name", WITH_LENGTHY)
def test_sums_of_messages(library: Library, name: str, size: int) -> None:
    assert compare.same_sums(name, library(name), Memory(), size) or name not in ONE_PASS


@pytest.mark.parametrize("name", WITH_LENGTHY)
def test_states_are_optional(library: Library, name: str) -> None:
    compare.same_without_states(name, library(name), Memory())


@pytest.mark.parametrize("name", WITH_LENGTHY)
def test_malformed_payloads_are_refused(library: Library, name: str) -> None:
    compare.same_refusals(name, library(name), Memory())


@pytest.mark.parametrize("name", WITH_LENGTHY)
def test_no_elements(library: Library, name: str) -> None:
    compare.nothing_of_nothing(name, library(name), Memory())


def test_a_program_that_scatters_in_no_order_is_refused(tmp_path: Path) -> None:
    wrong = compile_text("""
        void WrongEncode(float* gradient, uint8* compressed) {
            int* at = sort(range(gradient.size), [&](int i) -> int { return -i; });
            float* x = scatter(gradient, at, 0.0);
            compressed = concat(x);
        }
        void WrongDecode(uint8* compressed, float* gradient) {
            extract(compressed, float x[gradient.size]);
            gradient = x;
        }""")
    codec = CudaCodec(host_library(wrong, tmp_path), wrong, Memory(), {})
    with pytest.raises(Refused, match="scatter: indices must be in the vector and increase"):
        codec.encode(floats(1, 2), None, Call())


def test_short_reductions_of_a_block_share_one_kernel(tmp_path: Path) -> None:
    """A plan must fuse kernels: onebit makes its three reductions in one pass over the elements."""
    text = emit(program("onebit"), tmp_path).read_text().partition("namespace decoding")[0]
    assert text.count("block.rows<") == 2
    assert text.count("cuda::eachOfLane<") == 1
    assert text.count("cuda::finishLanes(") == 3


@pytest.mark.parametrize("noise", ["", " + random<float>(0, 1)"])
def test_a_block_with_a_packed_value_or_a_random_reduction_takes_several_kernels(tmp_path: Path, noise: str) -> None:
    packed = compile_text(f"""
        void PackedEncode(float* gradient, uint8* compressed) {{
            float* most = reduce_blocks(map(gradient, [&](float x) -> float {{ return abs(x){noise}; }}), 0.0, max, 64);
            uint4* large = map(most, [&](float m) -> uint4 {{ return m > 1 ? 2 : 1; }});
            int8* level = map(gradient, spread(large, 64), [&](float x, uint4 s) -> int8 {{ return x > s ? 1 : 0; }});
            compressed = concat(level, large);
        }}
        void PackedDecode(uint8* compressed, float* gradient) {{
            extract(compressed, int8 level[gradient.size], uint4 large[blocks(gradient.size, 64)]);
            gradient = map(level, spread(large, 64), [&](int8 l, uint4 s) -> float {{ return l * s; }});
        }}""")
    codec = CudaCodec(host_library(packed, tmp_path), packed, Memory(), {})
    gradient = 2 * floats(1000, 2)
    message = codec.encode(gradient, None, Call(seed=1))
    assert message == Interpreter(packed).encode(gradient, None, seed=1)
