# SPDX-License-Identifier: Apache-2.0
"""The values that sync.py's ranks average, and how far a result is from their exact average."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice

import torch
from models import GradientSet

#: A prime, so that a tensor that repeats a pool does not do so in step with anybody's blocks.
_POOL = 4_194_301
#: The error is computed in pieces of so many elements: in float64, a large tensor would not fit a second time.
_PIECE = 1 << 20


class Values:
    """Gaussian values, as gradients nearly have, that differ from rank to rank.

    Each rank's come from a pool, at a place of its own for each tensor, repeated where the tensor is larger: so every
    rank can say what the others had, and need not keep a second copy of a large model's gradients.
    """

    def __init__(self, gradients: GradientSet, rank: int, world: int) -> None:
        self._rank = rank
        self._pools = [torch.randn(_POOL, generator=torch.Generator().manual_seed(1000 + r)) for r in range(world)]
        # One set of tensors for all systems, so that all find the same pages in the same state.
        self.tensors = [torch.empty(gradient.shape) for gradient in gradients.gradients]

    def reset(self) -> None:
        """Gives all tensors this rank's values."""
        for index, tensor in enumerate(self.tensors):
            flat = tensor.view(-1)
            for start, place, count in _pieces(index, flat.numel()):
                flat[start : start + count] = self._pools[self._rank][place : place + count]

    def error(self, one_in: int = 1) -> float:
        """The relative L2 distance of the tensors, all together, from the average of the ranks' values. `one_in`: of
        large tensors, one piece in so many is looked at."""
        wrong = total = 0.0
        for index, tensor in enumerate(self.tensors):
            flat = tensor.view(-1)
            for start, place, count in islice(_pieces(index, flat.numel()), None, None, one_in):
                exact = torch.zeros(count, dtype=torch.float64)
                for pool in self._pools:
                    exact += pool[place : place + count]
                exact /= len(self._pools)
                wrong += float((flat[start : start + count] - exact).square().sum())
                total += float(exact.square().sum())
        return math.sqrt(wrong / total)


def _pieces(index: int, count: int) -> Iterator[tuple[int, int, int]]:
    """Tensor `index` in pieces: first element, its place in the pool, number of elements."""
    start = 0
    while start < count:
        place = (index * 104_729 + start) % _POOL
        size = min(_PIECE, count - start, _POOL - place)
        yield start, place, size
        start += size
