# SPDX-License-Identifier: Apache-2.0
"""Integers of 4 bits: what does not fit is refused, and sums of packed and other contributions are NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from hipress import _core
from hipress.errors import InvalidArgument
from tests.cases import each

Integers = NDArray[np.int8]
#: Around blocks of 4096, with odd numbers.
COUNTS = [0, 1, 2, 7, 63, 64, 65, 127, 129, 1023, 1024, 1025, 4095, 4096, 4097, 10_001]


def small(count: int, seed: int = 0) -> Integers:
    return np.random.default_rng(seed).integers(-8, 8, count, np.int8)


def packed(integers: Integers) -> bytes:
    found = _core.pack_nibbles(integers)
    assert found is not None
    return found


@each("count", COUNTS)
def test_two_integers_share_a_byte_and_the_first_one_has_the_lower_half(count: int, isa: str) -> None:
    integers = small(count)
    halves = np.zeros(count + count % 2, np.uint8)
    halves[:count] = integers.view(np.uint8) & 15
    assert packed(integers) == (halves[0::2] | halves[1::2] << 4).tobytes()


@each("count", [1, 2, 7, 64, 101, 1025])
def test_every_other_integer_is_refused_wherever_it_is(count: int, isa: str) -> None:
    for place in {0, count // 2, count - 1}:
        for value in range(-128, 128):
            integers = small(count)
            integers[place] = value
            assert (_core.pack_nibbles(integers) is not None) == (-8 <= value <= 7), (place, value)


@each("count", COUNTS)
@each(("halves", "whole"), [(1, 0), (1, 1), (2, 1), (3, 1), (7, 2), (8, 0), (8, 1), (9, 1), (17, 0), (18, 3)])
def test_sums_of_both_kinds(count: int, halves: int, whole: int, isa: str) -> None:
    own = [small(count, seed) for seed in range(halves)]
    others = [np.random.default_rng(seed).integers(-128, 128, count, np.int8) for seed in range(whole)]
    expected = np.sum([*own, *others], axis=0, dtype=np.int8)
    for out in (np.full(count, 77, np.int8), *others[:1], *others[-1:]):
        before = out.copy()
        _core.sum_nibbles([packed(one) for one in own], others, out)
        np.testing.assert_array_equal(out, expected)
        out[:] = before


def test_addresses_need_no_alignment(isa: str) -> None:
    room = np.zeros(5001, np.int8)
    values = room[1:]
    values[:] = small(5000)
    out = np.zeros(5003, np.int8)[3:]
    _core.sum_nibbles([packed(values)], [values], out)
    np.testing.assert_array_equal(out, 2 * values)


def test_contributions_of_other_sizes_are_refused() -> None:
    for halves, whole in (([b"12"], []), ([b"1"], [small(3)])):
        with pytest.raises(InvalidArgument, match="must have the output's size"):
            _core.sum_nibbles(halves, whole, small(2))
