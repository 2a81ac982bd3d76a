# SPDX-License-Identifier: Apache-2.0
"""A slow decoder of SparseLoCo's messages, written from docs/wire-format.md alone."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Shape = tuple[int, ...]
_LIMITS = (64, 192, 384, 640, 1024, 1792, 3072)


def used(buffer: bytes) -> bytes:
    """The buffer without the zeros behind the message, where the message is coded."""
    return buffer if buffer[8:12] == bytes(4) else buffer.rstrip(b"\0")


def grid_of(shape: Shape, k: int) -> tuple[int, int, int, int, int]:
    """Tiles, tiles beside each other, height, width, values that are sent of each."""
    rows = shape[0] if len(shape) > 1 else 1
    columns = math.prod(shape) // rows
    (down, height), (across, width) = ((math.ceil(n / 64), math.ceil(n / math.ceil(n / 64))) for n in (rows, columns))
    return down * across, across, height, width, min(k, height * width)


class _Chance:
    def __init__(self, of_one: int) -> None:
        self.of_one, self.seen = of_one, 0


class _Bits:
    def __init__(self, stream: bytes) -> None:
        self._stream, self._read = stream, 4
        self._low, self._high = 0, 0xFFFFFFFF
        self._value = int.from_bytes((stream + bytes(4))[:4], "big")

    def bit(self, chance: _Chance) -> int:
        share = min(max(chance.of_one >> 6, 1), 65535)
        middle = self._low + ((self._high - self._low) * share >> 16)
        bit = int(self._value <= middle)
        if bit:
            self._high = middle
        else:
            self._low = middle + 1
        while self._low >> 24 == self._high >> 24:
            self._low = self._low << 8 & 0xFFFFFFFF
            self._high = (self._high << 8 & 0xFFFFFFFF) | 0xFF
            byte = self._stream[self._read] if self._read < len(self._stream) else 0
            self._value = (self._value << 8 & 0xFFFFFFFF) | byte
            self._read += 1
        chance.of_one += ((bit << 22) - chance.of_one) * (655360 // (10 * chance.seen + 16)) >> 16
        chance.seen = min(chance.seen + 1, 1023)
        return bit

    def at_end(self) -> bool:
        return self._read - 3 == len(self._stream)


def _values(bits: _Bits, grids: list[tuple[int, int, int, int, int]]) -> Iterator[list[tuple[int, int]]]:
    """Of each tile the sent places and their bins."""
    places = [[_Chance(1 << 16) for _ in range(4)] for _ in range(8)]
    after = [[_Chance(1 << 21) for _ in range(3)] for _ in range(5)]
    of_all = [_Chance(1 << 21) for _ in range(3)]

    def a_bin(chances: list[_Chance]) -> int:
        high = bits.bit(chances[0])
        return 2 * high + bits.bit(chances[1 + high])

    for tiles, across, height, width, kept in grids:
        weights = [[0] * width for _ in range(across)]
        for tile in range(tiles):
            if kept == height * width:
                yield [(place, a_bin(of_all)) for place in range(kept)]
                continue
            found: list[tuple[int, int]] = []
            weight = weights[tile % across]
            for row in range(height):
                in_row = 0
                for column in range(width):
                    place, missing = row * width + column, kept - len(found)
                    if missing == 0:
                        break
                    chance = places[sum(weight[column] >= limit for limit in _LIMITS)][min(3, (in_row + 1) // 2)]
                    if missing == height * width - place or bits.bit(chance):
                        found.append((place, a_bin(after[1 + found[-1][1] if found else 0])))
                        weight[column] += 256
                        in_row += 1
                weight[:] = [each - (each >> 5) for each in weight]
            yield found


def decoded(buffer: bytes, shapes: dict[str, Shape], k: int) -> dict[str, NDArray[Any]]:
    """What a coded message of less than 2^22 elements sends of each tensor; zeros elsewhere."""
    message = used(buffer)
    assert message[:4] == b"HSL3"
    assert struct.unpack("<I", message[4:8])[0] == zlib.crc32(message[8:])
    at = 12
    levels: dict[str, list[float]] = {}
    result = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    for name, shape in shapes.items():
        tiles, _, height, width, kept = grid_of(shape, k)
        count, values, size = math.prod(shape), tiles * kept, height * width
        low = math.floor(math.log2(size / kept))
        places = kept + ((size - 1) >> low)
        index_bytes = 0 if kept == size else (values * low + 7) // 8 + (tiles * places + 7) // 8
        if 8 + (values + 3) // 4 + index_bytes >= 4 * count:
            result[name] = np.frombuffer(message[at : at + 4 * count], np.float32).reshape(shape)
            at += 4 * count
            continue
        levels[name] = [struct.unpack("<f", b"\0\0" + message[at + 2 * i : at + 2 * i + 2])[0] for i in range(4)]
        at += 8
    assert struct.unpack("<I", message[8:12])[0] == len(message) - at
    bits = _Bits(message[at:])
    grids = {name: grid_of(shapes[name], k) for name in levels}
    tiles_of = _values(bits, list(grids.values()))
    for name, (tiles, across, height, width, _) in grids.items():
        rows = shapes[name][0] if len(shapes[name]) > 1 else 1
        padded = np.zeros((tiles // across * height, across * width), np.float32)
        for tile in range(tiles):
            top, left = tile // across * height, tile % across * width
            for place, value in next(tiles_of):
                padded[top + place // width, left + place % width] = levels[name][value]
        columns = math.prod(shapes[name]) // rows
        result[name] = padded[:rows, :columns].reshape(shapes[name])
    assert bits.at_end()
    return result
