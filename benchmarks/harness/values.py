# SPDX-License-Identifier: Apache-2.0
"""The values that ranks average, and the error of a result. It uses NumPy, which all environments have."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float32]

#: Elements of a pool: a prime, so that a repeated pool is not aligned with blocks of a codec.
_POOL = 4_194_301
#: Elements of a piece for the error, which needs float64: a whole large tensor would need too much memory.
_PIECE = 1 << 20


class Values:
    """Normally distributed values that differ between ranks.

    Each tensor's values come from another place of the rank's pool, and repeat if the tensor is larger than the pool.
    So every rank can compute the values of all ranks, and needs no second copy of a large model's gradients.
    """

    def __init__(self, arrays: Sequence[Array], rank: int, world: int) -> None:
        """`arrays`: C-contiguous arrays with the gradients' shapes, used in place."""
        self._rank = rank
        self._pools = [np.random.default_rng(1000 + r).standard_normal(_POOL, np.float32) for r in range(world)]
        self._arrays = [array.reshape(-1) for array in arrays]

    def reset(self) -> None:
        """Fills all arrays with the values of this rank."""
        for index, flat in enumerate(self._arrays):
            for start, place, count in _pieces(index, flat.size):
                flat[start : start + count] = self._pools[self._rank][place : place + count]

    def error(self, one_in: int = 1) -> float:
        """The relative L2 distance of all arrays together from the average of the ranks' values. `one_in`: for large
        arrays, one of this many pieces is used."""
        wrong = total = 0.0
        for index, flat in enumerate(self._arrays):
            for start, place, count in islice(_pieces(index, flat.size), None, None, one_in):
                exact = np.zeros(count)
                for pool in self._pools:
                    exact += pool[place : place + count]
                exact /= len(self._pools)
                wrong += float(np.square(flat[start : start + count] - exact).sum())
                total += float(np.square(exact).sum())
        return math.sqrt(wrong / total)


def _pieces(index: int, count: int) -> Iterator[tuple[int, int, int]]:
    """The pieces of tensor `index`: first element, place in the pool, number of elements."""
    start = 0
    while start < count:
        place = (index * 104_729 + start) % _POOL
        size = min(_PIECE, count - start, _POOL - place)
        yield start, place, size
        start += size
