# SPDX-License-Identifier: Apache-2.0
"""Numbers of 2 and of 12 bits as bytes, without gaps."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]


def bytes_of_2bit(count: int) -> int:
    """How many bytes `count` numbers of 2 bits take."""
    return (count + 3) // 4


def bytes_of_12bit(count: int) -> int:
    """How many bytes `count` numbers of 12 bits take: three for two."""
    return (count + 1) // 2 * 3


def pack_2bit(codes: Bytes) -> Bytes:
    """Four codes a byte, the first in its lowest bits."""
    padded = np.zeros(4 * bytes_of_2bit(codes.size), np.uint8)
    padded[: codes.size] = codes
    one, two, three, four = padded.reshape(-1, 4).T
    return np.asarray(one | two << 2 | three << 4 | four << 6, np.uint8)


def unpack_2bit(packed: Bytes, count: int) -> Bytes:
    """See pack_2bit()."""
    return np.stack([packed >> shift & 3 for shift in (0, 2, 4, 6)], axis=1).reshape(-1)[:count]


def pack_12bit(numbers: NDArray[np.int64]) -> Bytes:
    """Two numbers below 4,096 in three bytes: the first one's low 8 bits; its high 4 below the second one's low 4; the
    second one's high 8."""
    padded = np.zeros(numbers.size + numbers.size % 2, np.int64)
    padded[: numbers.size] = numbers
    one, two = padded.reshape(-1, 2).T
    return np.stack([one & 255, one >> 8 | (two & 15) << 4, two >> 4], axis=1).astype(np.uint8).reshape(-1)


def unpack_12bit(packed: Bytes, count: int) -> NDArray[np.int64]:
    """See pack_12bit()."""
    low, middle, high = packed.reshape(-1, 3).T.astype(np.int64)
    return np.stack([low | (middle & 15) << 8, middle >> 4 | high << 4], axis=1).reshape(-1)[:count]
