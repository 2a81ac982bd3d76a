# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest

from hipress.compll.reference.philox import RandomKey, philox, uniform, uniform_int

# From the file kat_vectors of Random123, the library of Philox's authors: philox 4x32 7.
VECTORS = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "5f6fb709 0d893f64 4f121f81 4f730a48"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "5207ddc2 45165e59 4d8ee751 8c52f662"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "4dfccaba 190a87f0 c47362ba b6b5242a"),
]


@pytest.mark.parametrize(("counter", "key", "output"), VECTORS)
def test_published_vectors(counter: str, key: str, output: str) -> None:
    words = np.array([[int(word, 16)] for word in counter.split()], np.uint32)
    low, high = (int(word, 16) for word in key.split())
    assert [f"{word:08x}" for word in philox(words, (low, high))[:, 0]] == output.split()


def test_place_of_each_part_of_the_key() -> None:
    element, site = (5 << 34) + 9 * 4 + 2, 3
    key = RandomKey(seed=(7 << 32) + 6, step=11, tensor=13, first_element=element - 1)
    counter = np.array([[9], [5 | site << 16], [11], [13]], np.uint32)
    assert key.words(np.array([1]), site, 32)[0] == philox(counter, (6, 7))[2, 0]


@pytest.mark.parametrize("half", range(8))
def test_place_of_each_half_of_a_word(half: int) -> None:
    element, site = (5 << 35) + 9 * 8 + half, 3
    key = RandomKey(seed=(7 << 32) + 6, step=11, tensor=13, first_element=element - 1)
    counter = np.array([[9], [5 | site << 16], [11], [13]], np.uint32)
    word = int(philox(counter, (6, 7))[half // 2, 0])
    taken = word >> 16 if half % 2 else word & 0xFFFF
    assert key.words(np.array([1]), site, 16)[0] == taken * 2**16 + 2**15


@pytest.mark.parametrize("bits", [16, 32])
def test_an_element_does_not_depend_on_the_partition(bits: int) -> None:
    whole = RandomKey(seed=1).words(np.arange(100), 0, bits)
    part = RandomKey(seed=1, first_element=33).words(np.arange(67), 0, bits)
    assert np.array_equal(whole[33:], part)


@pytest.mark.parametrize("bits", [16, 32])
def test_ranges(bits: int) -> None:
    words = RandomKey().words(np.arange(10000), 0, bits)
    u = uniform(words, 0, 1)
    assert u.dtype == np.float32
    assert 0 <= u.min() < 0.01
    assert 0.99 < u.max() < 1
    assert set(uniform_int(words, -2, 3)) == {-2, -1, 0, 1, 2}
    assert set(uniform_int(words, 4, 4)) == {4}


def test_sixteen_bits_are_the_middles_of_as_many_intervals() -> None:
    middles = uniform(np.arange(2**16, dtype=np.uint32) << 16 | 0x8000, 0, 1).astype(np.float64)
    assert np.array_equal(middles, (np.arange(2**16) + 0.5) / 2**16)
    drawn = uniform(RandomKey(seed=3).words(np.arange(1000), 0, 16), 0, 1)
    assert np.isin(drawn, middles).all()


def test_shared_numbers_depend_on_the_lower_half_of_the_seed() -> None:
    """The engine puts the rank and the purpose of an encode into the upper half of the seed."""
    drawn = [RandomKey(seed=7 | rank << 32).of_all_ranks().words(np.arange(100), 0, 32) for rank in range(3)]
    assert np.array_equal(drawn[0], drawn[1])
    assert np.array_equal(drawn[0], drawn[2])
    assert np.array_equal(drawn[0], RandomKey(seed=7).words(np.arange(100), 0, 32))
    assert not np.array_equal(drawn[0], RandomKey(seed=8).of_all_ranks().words(np.arange(100), 0, 32))
