# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ctypes

import numpy as np
from numpy.typing import NDArray

from hipress.compll.reference.philox import RandomKey
from tests.cases import each
from tests.core.ops.arrays import SIZES, guarded, pointer, size

KEYS = [
    RandomKey(),
    RandomKey(seed=1, step=2, tensor=3, first_element=4),
    RandomKey(seed=2**64 - 1, step=2**64 - 1, tensor=2**32 - 1, first_element=4 * 2**32 - 500),
    RandomKey(seed=0x0123456789ABCDEF, step=2**32 + 5, tensor=7, first_element=4 * 2**48 - 499),
    *(RandomKey(seed=9, first_element=first) for first in (1, 2, 3)),
]


def words(ops: ctypes.CDLL, key: RandomKey, site: int, first: int, count: int, bits: int) -> NDArray[np.uint32]:
    result = guarded(np.zeros(count, np.uint32 if bits == 32 else np.uint16))
    numbers = (ctypes.c_uint64(key.seed), ctypes.c_uint64(key.step), ctypes.c_uint32(key.tensor))
    tile = ops.philox_tile if bits == 32 else ops.philox_half_tile
    tile(*numbers, ctypes.c_uint64(key.first_element), site, ctypes.c_uint64(first), size(count), pointer(result))
    return result


PLACES = [(0, 0), (65535, 1024), (3, 1021), (65537, 6)]


@each("key", KEYS)
@each("count", SIZES)
def test_words_of_a_tile(ops: ctypes.CDLL, key: RandomKey, count: int) -> None:
    for site, first in PLACES:
        expected = key.words(np.arange(first, first + count), site, 32)
        assert np.array_equal(words(ops, key, site, first, count, 32), expected)


@each("key", KEYS)
@each("count", SIZES)
def test_halves_of_words_of_a_tile(ops: ctypes.CDLL, key: RandomKey, count: int) -> None:
    for site, first in PLACES:
        expected = key.words(np.arange(first, first + count), site, 16) >> 16
        assert np.array_equal(words(ops, key, site, first, count, 16), expected)


@each("bits", [16, 32])
@each("key", KEYS)
def test_the_word_of_one_element(library: ctypes.CDLL, key: RandomKey, bits: int) -> None:
    of_one = library.philox_word if bits == 32 else library.philox_half_word
    of_one.restype = ctypes.c_uint32
    numbers = (ctypes.c_uint64(key.seed), ctypes.c_uint64(key.step), ctypes.c_uint32(key.tensor))
    for element in (0, 1, 2, 3, 4, 499, 500, 2**31 - 2):
        word = of_one(*numbers, ctypes.c_uint64(key.first_element), 11, ctypes.c_uint64(element))
        assert word == key.words(element, 11, bits)[0]
