# SPDX-License-Identifier: Apache-2.0
"""Packs 2-bit numbers into bytes without gaps."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]


def bytes_of_2bit(count: int) -> int:
    """Number of bytes of `count` 2-bit numbers."""
    return (count + 3) // 4


def pack_2bit(codes: Bytes) -> Bytes:
    """Packs four codes into each byte, the first code in its lowest bits."""
    padded = np.zeros(4 * bytes_of_2bit(codes.size), np.uint8)
    padded[: codes.size] = codes
    one, two, three, four = padded.reshape(-1, 4).T
    return np.asarray(one | two << 2 | three << 4 | four << 6, np.uint8)


def unpack_2bit(packed: Bytes, count: int) -> Bytes:
    """Undoes pack_2bit(): the first `count` codes."""
    return np.stack([packed >> shift & 3 for shift in (0, 2, 4, 6)], axis=1).reshape(-1)[:count]
