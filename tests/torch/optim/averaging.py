# SPDX-License-Identifier: Apache-2.0
"""The average of all ranks' values with onebit over topology "ps", in NumPy: both carriers must compute it.

A tensor is cut into partitions. The owner of a partition adds the encoded values of the other ranks and its own raw
values in rank order, and encodes the average. Sender and owner each add their residual before they encode.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipress import _core

Floats = NDArray[np.float32]
_BLOCK = 32768


def onebit(values: Floats) -> Floats:
    """Each value of a block becomes the mean of the block's values from 0 on, or of its values below 0 (Seide et al.,
    2014)."""
    result = np.empty_like(values)
    for first in range(0, values.size, _BLOCK):
        block = values[first : first + _BLOCK]
        high = block >= 0
        for side in (high, ~high):
            if side.any():
                result[first : first + _BLOCK][side] = np.float32(block[side].mean(dtype=np.float64))
    return result


def owner_by_name(name: str, world: int) -> int:
    """The engine's owner of a tensor's first partition, as firstAggregator() of core/casync/graph/shares.cc computes
    it."""
    number = 2166136261
    for each in name.encode():
        number = ((number ^ each) * 16777619) % 2**32
    return number % world


class TwoSided:
    """The averages of one tensor, step by step."""

    def __init__(self, count: int, world: int, first_owner: int) -> None:
        pieces = _core.split_elements(count, _core.default_partitions(count, 4, world))
        self._partitions = [(first, n, (first_owner + index) % world) for index, (first, n) in enumerate(pieces)]
        self._world = world
        self._sender: Any = np.zeros((world, count), np.float32)
        self._owner: Any = np.zeros(count, np.float32)

    def average(self, values: list[Floats]) -> Floats:
        """The next average; `values` has each rank's flat values."""
        result = np.empty_like(values[0])
        for first, count, owner in self._partitions:
            part = slice(first, first + count)
            total = np.zeros(count, np.float32)
            for rank in range(self._world):
                if rank == owner:
                    total += values[rank][part]
                    continue
                wanted = values[rank][part] + self._sender[rank, part]
                sent = onebit(wanted)
                self._sender[rank, part] = wanted - sent
                total += sent
            wanted = total * np.float32(1 / self._world) + self._owner[part]
            result[part] = onebit(wanted)
            self._owner[part] = wanted - result[part]
        return result
