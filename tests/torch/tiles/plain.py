# SPDX-License-Identifier: Apache-2.0
"""SparseLoCo's choice and rounding of values, element by element in NumPy: the values to which its messages must
decode."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


def tiles(shape: tuple[int, ...]) -> Iterator[NDArray[np.int64]]:
    """The flat indices of each tile's elements. The tiles are equal and at most 64 × 64; the last ones are cut off."""
    rows = shape[0] if len(shape) > 1 else 1
    columns = math.prod(shape) // rows
    height, width = (math.ceil(n / math.ceil(n / 64)) for n in (rows, columns))
    numbers = np.arange(rows * columns).reshape(rows, columns)
    for top in range(0, rows, height):
        for left in range(0, columns, width):
            yield numbers[top : top + height, left : left + width].reshape(-1)


def two_bits(values: Floats) -> Floats:
    """Each value becomes the mean of its bin. The bins are 1.5 standard deviations wide, and the mean is in the middle
    of the third bin."""
    mean = float(np.mean(values, dtype=np.float64))
    sigma = math.sqrt(sum((float(v) - mean) ** 2 for v in values) / max(len(values) - 1, 1))
    width = 1.5 * sigma if sigma > 0 else 1.0
    bins = [min(3, max(0, round((float(v) - mean) / width + 2))) for v in values]
    result: Any = np.empty_like(values)
    for each in set(bins):
        members = [place for place, b in enumerate(bins) if b == each]
        result[members] = bfloat16(np.mean([float(values[place]) for place in members]))
    return np.asarray(result, np.float32)


def bfloat16(value: Any) -> np.float32:
    """The nearest one, the even one of two; no finite value becomes infinite."""
    upper, rest = divmod(int(np.float32(value).view(np.uint32)), 1 << 16)
    upper += rest > 1 << 15 or (rest == 1 << 15 and upper % 2 == 1)
    if upper & 0x7FFF == 0x7F80:
        upper -= 1
    return np.uint32(upper << 16).view(np.float32)


def index_bytes(rows: int, k: int, size: int) -> int:
    """The size of an Elias-Fano code in bytes. It has the low bits; then a one for each number, and a zero for each
    step of the numbers' high part."""
    low = math.floor(math.log2(size / k))
    return math.ceil(rows * k * low / 8) + math.ceil(rows * (k + (size - 1) // 2**low) / 8)


def sent(wanted: Floats, k: int = 64) -> Floats:
    """The values of `wanted` that a rank sends, with zeros elsewhere."""
    flat = wanted.reshape(-1)
    chosen: list[int] = []
    smallest = flat.size
    for tile in tiles(wanted.shape):
        order = np.argsort(-np.abs(flat[tile]), kind="stable")[:k]
        chosen += list(np.sort(tile[order]))
        smallest = min(smallest, len(tile))
    result = np.zeros_like(flat)
    indices = 0 if k >= smallest else index_bytes(len(chosen) // k, k, smallest)
    if 8 + (len(chosen) + 3) // 4 + indices >= 4 * flat.size:
        return wanted.copy()  # the values travel as float32
    result[chosen] = two_bits(flat[chosen])
    return result.reshape(wanted.shape)
