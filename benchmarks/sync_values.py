# SPDX-License-Identifier: Apache-2.0
"""The values that ranks average, and how far a result is from their exact average. In NumPy: all frameworks have it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float32]

#: A prime, so that a tensor that repeats a pool does not do so in step with anybody's blocks.
_POOL = 4_194_301
#: The error is computed in pieces of so many elements: in float64, a large tensor would not fit a second time.
_PIECE = 1 << 20


class Values:
    """Gaussian values, as gradients nearly have, that differ from rank to rank.

    Each rank's come from a pool, at a place of its own for each tensor, repeated where the tensor is larger: so every
    rank can say what the others had, and need not keep a second copy of a large model's gradients.
    """

    def __init__(self, arrays: Sequence[Array], rank: int, world: int) -> None:
        """`arrays`: C-contiguous, of the gradients' shapes; they are looked at where they are."""
        self._rank = rank
        self._pools = [np.random.default_rng(1000 + r).standard_normal(_POOL, np.float32) for r in range(world)]
        self._arrays = [array.reshape(-1) for array in arrays]

    def reset(self) -> None:
        """Gives all arrays this rank's values."""
        for index, flat in enumerate(self._arrays):
            for start, place, count in _pieces(index, flat.size):
                flat[start : start + count] = self._pools[self._rank][place : place + count]

    def error(self, one_in: int = 1) -> float:
        """The relative L2 distance of the arrays, all together, from the average of the ranks' values. `one_in`: of
        large arrays, one piece in so many is looked at."""
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
    """Tensor `index` in pieces: first element, its place in the pool, number of elements."""
    start = 0
    while start < count:
        place = (index * 104_729 + start) % _POOL
        size = min(_PIECE, count - start, _POOL - place)
        yield start, place, size
        start += size
