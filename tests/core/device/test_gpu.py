# SPDX-License-Identifier: Apache-2.0
"""Element kernels and the codec fp16 on a GPU give the host's bits. `make test-gpu` runs this, and fails without a
GPU."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cases import each
from tests.compll.emit.cuda.device import DeviceMemory, Runtime, missing, require_gpu
from tests.core.codec_reference import awkward_inputs
from tests.core.device import compare
from tests.core.device.kernels import Elements, starting_library
from tests.core.ops.arrays import floats
from tests.core.test_convert import interesting_floats

#: A size with more tiles than a grid has thread blocks.
LARGE = 5_000_001


@dataclass(frozen=True)
class Gpu:
    library: Path
    memory: DeviceMemory


@pytest.fixture(scope="module")
def gpu() -> Gpu:
    require_gpu(missing())
    return Gpu(starting_library(), DeviceMemory(Runtime()))


@each("ranks", compare.RANKS)
@pytest.mark.parametrize("dtype", compare.DTYPES)
def test_sums(gpu: Gpu, dtype: str, ranks: int) -> None:
    compare.same_merges(Elements(gpu.library, gpu.memory), dtype, ranks, "sum")


@pytest.mark.parametrize("op", ["min", "max", "product"])
@pytest.mark.parametrize("dtype", compare.DTYPES)
def test_min_max_and_product(gpu: Gpu, dtype: str, op: str) -> None:
    for ranks in (1, 2, 5, 33, 70):
        compare.same_merges(Elements(gpu.library, gpu.memory), dtype, ranks, op)


@pytest.mark.parametrize("dtype", compare.FLOATS)
def test_conversions(gpu: Gpu, dtype: str) -> None:
    elements = Elements(gpu.library, gpu.memory)
    for values in [interesting_floats(), floats(LARGE)]:
        compare.same_conversions(elements, dtype, values)
    for size in compare.SIZES:
        for values in [*awkward_inputs(size).values(), floats(size)]:
            compare.same_conversions(elements, dtype, values)


@pytest.mark.parametrize("dtype", compare.FLOATS)
def test_values_that_are_not_finite_are_flagged(gpu: Gpu, dtype: str) -> None:
    compare.flags_what_is_not_finite(Elements(gpu.library, gpu.memory), dtype)


@each("size", [*compare.SIZES, LARGE])
def test_fp16(gpu: Gpu, size: int) -> None:
    compare.same_fp16(gpu.library, gpu.memory, size)


def test_fp16_refuses_what_is_no_message(gpu: Gpu) -> None:
    compare.refused_fp16(gpu.library, gpu.memory)
