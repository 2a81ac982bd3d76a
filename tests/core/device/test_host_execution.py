# SPDX-License-Identifier: Apache-2.0
"""Element kernels and the codec fp16 that run on the processor give the host's bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.cases import each
from tests.compll.emit.cuda.table import Memory
from tests.core.codec_reference import awkward_inputs
from tests.core.device import compare
from tests.core.device.kernels import Elements, host_library
from tests.core.ops.arrays import floats
from tests.core.test_convert import interesting_floats


@pytest.fixture(scope="module")
def library() -> Path:
    return host_library()


@each("ranks", compare.RANKS)
@pytest.mark.parametrize("dtype", compare.DTYPES)
def test_sums(library: Path, dtype: str, ranks: int) -> None:
    compare.same_merges(Elements(library, Memory()), dtype, ranks, "sum")


@pytest.mark.parametrize("op", ["min", "max", "product"])
@pytest.mark.parametrize("dtype", compare.DTYPES)
def test_min_max_and_product(library: Path, dtype: str, op: str) -> None:
    for ranks in (1, 2, 5, 33, 70):
        compare.same_merges(Elements(library, Memory()), dtype, ranks, op)


@pytest.mark.parametrize("dtype", compare.FLOATS)
def test_conversions(library: Path, dtype: str) -> None:
    elements = Elements(library, Memory())
    compare.same_conversions(elements, dtype, interesting_floats())
    for size in compare.SIZES:
        for values in [*awkward_inputs(size).values(), floats(size)]:
            compare.same_conversions(elements, dtype, values)


@pytest.mark.parametrize("dtype", compare.FLOATS)
def test_values_that_are_not_finite_are_flagged(library: Path, dtype: str) -> None:
    compare.flags_what_is_not_finite(Elements(library, Memory()), dtype)


@each("size", compare.SIZES)
def test_fp16(library: Path, size: int) -> None:
    compare.same_fp16(library, Memory(), size)


@each("size", [size for size in compare.SIZES if size])
def test_fp16_sums(library: Path, size: int) -> None:
    compare.same_fp16_sums(library, Memory(), size)


def test_fp16_refuses_what_is_no_message(library: Path) -> None:
    compare.refused_fp16(library, Memory())


def test_order_is_the_ranks_order(library: Path) -> None:
    """The order holds across several kernels: 2^24 + 1 + 1 + ... loses all ones, and 1 + 1 + ... + 2^24 loses none."""
    elements = Elements(library, Memory())
    big, one = np.full(100, 2**24, np.float32), np.ones(100, np.float32)
    assert (elements.reduce([big, *[one] * 40], "float32") == 2**24).all()
    assert (elements.reduce([*[one] * 40, big], "float32") == 2**24 + 40).all()
