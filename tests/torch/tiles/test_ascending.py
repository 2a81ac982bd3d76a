# SPDX-License-Identifier: Apache-2.0
"""Elias-Fano codes of tiles' indices can be decoded, have the published size, and refuse other bytes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hipress.errors import CorruptPayload
from hipress.torch.tiles.ascending import AscendingCode

KINDS = {
    "first": lambda k, size: np.arange(k),
    "last": lambda k, size: np.arange(size - k, size),
    "both ends": lambda k, size: np.r_[np.arange(k // 2), np.arange(size - k + k // 2, size)],
    "spread": lambda k, size: np.arange(k) * size // k,
    "random": lambda k, size: np.sort(np.random.default_rng(k).choice(size, k, replace=False)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("k", "size"), [(1, 2), (1, 4096), (64, 4096), (63, 4095), (64, 65), (64, 3844), (7, 99), (4095, 4096), (2, 4)]
)
def test_numbers_come_back(kind: str, k: int, size: int) -> None:
    numbers = np.stack([KINDS[kind](k, size), KINDS["random"](k, size), KINDS["first"](k, size)]).astype(np.int64)
    code = AscendingCode(3, k, size)
    packed = code.packed(numbers)
    assert packed.dtype == np.uint8
    assert packed.size == code.bytes
    assert np.array_equal(code.unpacked(packed), numbers)
    low = math.floor(math.log2(size / k))
    assert code.bytes == math.ceil(3 * k * low / 8) + math.ceil(3 * (k + (size - 1) // 2**low) / 8)


def test_the_published_bytes() -> None:
    # Two rows of 2 numbers below 16: 3 low bits for each number, then 3 places with ones at h and h + 1, where h is the
    # high part.
    code = AscendingCode(2, 2, 16)
    packed = code.packed(np.array([[1, 13], [4, 7]]))
    low = 1 | 5 << 3 | 4 << 6 | 7 << 9
    high = 0b101 | 0b011 << 3
    assert packed.tolist() == [low & 255, low >> 8, high]


def test_a_64th_takes_8_bits_an_index() -> None:
    assert AscendingCode(1000, 64, 4096).bytes == 1000 * (64 * 6 + 127) // 8


@pytest.mark.parametrize(
    ("packed", "message"),
    [
        ([0, 0b10, 0b00110011], "the indices of a tile do not ascend"),  # the number 0 twice
        ([1, 0b10, 0b00110011], "the indices of a tile do not ascend"),  # the number 1, then 0
        ([7 << 3, 0b10, 0b00111001], "or are not below 23"),  # the number 23
        ([0, 0b10, 0b00110001], "a tile has not 2 indices"),
        ([0, 0b10, 0b01110001], "a tile has not 2 indices"),
        ([0, 0b10, 0b11111111], "a tile has not 2 indices"),
    ],
)
def test_bytes_that_no_sender_writes_are_refused(packed: list[int], message: str) -> None:
    code = AscendingCode(2, 2, 23)
    assert code.unpacked(np.array([0, 0b10, 0b00110101], np.uint8)).tolist() == [[0, 8], [0, 1]]
    assert code.bytes == len(packed)
    with pytest.raises(CorruptPayload, match=message):
        code.unpacked(np.array(packed, np.uint8))
