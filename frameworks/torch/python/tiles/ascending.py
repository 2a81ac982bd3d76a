# SPDX-License-Identifier: Apache-2.0
"""Encodes rows of ascending numbers in few bits: the Elias-Fano code (Elias, Journal of the ACM 21(2), 1974)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipress.errors import CorruptPayload
from hipress.torch.tiles.packing import Bytes


class AscendingCode:
    """The code of `rows` rows of k ascending numbers below `size`. The number of bytes does not depend on the numbers.

    The code has the ⌊log2(size / k)⌋ low bits of each number as they are. The high part h of a row's i-th number is a
    one bit at place h + i among zero bits. For 64 numbers below 4,096 that is 6 + 127 / 64 bits per number; every code
    needs at least 7.4 on average.
    """

    def __init__(self, rows: int, k: int, size: int) -> None:
        self._rows, self._k, self._size = rows, k, size
        self._low = (size // k).bit_length() - 1
        self._places = k + ((size - 1) >> self._low)
        self._low_bytes = (rows * k * self._low + 7) // 8
        self.bytes = self._low_bytes + (rows * self._places + 7) // 8

    def packed(self, numbers: NDArray[np.integer[Any]]) -> Bytes:
        """Encodes numbers of shape [rows, k], ascending in each row, into `self.bytes` bytes, lowest bit first."""
        short = numbers.astype(np.uint16)
        low = (short[..., None] >> np.arange(self._low, dtype=np.uint16)).astype(np.uint8) & 1
        high = np.zeros((self._rows, self._places), np.uint8)
        np.put_along_axis(high, (short >> self._low) + np.arange(self._k), 1, axis=1)
        parts = [np.packbits(each.reshape(-1), bitorder="little") for each in (low, high)]
        return np.concatenate(parts)

    def unpacked(self, packed: Bytes) -> NDArray[np.int64]:
        """Decodes the numbers, shape [rows, k]. Raises CorruptPayload if they do not ascend or are too large."""
        low_bits, high_bits = np.split(packed, [self._low_bytes])
        count = self._rows * self._k
        low = np.unpackbits(low_bits, bitorder="little", count=count * self._low).reshape(count, self._low)
        high = np.unpackbits(high_bits, bitorder="little", count=self._rows * self._places)
        places = np.flatnonzero(high)
        row, place = np.divmod(places, self._places)
        if places.size != count or not np.array_equal(row, np.repeat(np.arange(self._rows), self._k)):
            raise CorruptPayload(f"a tile has not {self._k} indices")
        numbers = (place.reshape(self._rows, self._k) - np.arange(self._k)) << self._low
        for bit in range(self._low):
            numbers |= low[:, bit].reshape(self._rows, self._k).astype(np.int64) << bit
        # No number may occur twice: an element that occurred twice would get only one of its two values.
        if numbers.max(initial=0) >= self._size or not (np.diff(numbers, axis=1) > 0).all():
            raise CorruptPayload(f"the indices of a tile do not ascend, or are not below {self._size}")
        return numbers
