# SPDX-License-Identifier: Apache-2.0
"""Equal tiles that cover a tensor."""

from __future__ import annotations

import math

import torch

#: The longest edge. SparseLoCo and DeMo take 64.
LONGEST = 64


def _edge(length: int) -> tuple[int, int]:
    """Number of tiles and their edge: the fewest of at most LONGEST that cover `length`, all alike.

    The published codes take the largest divisor of `length` up to 64. That is the same for all multiples of 64 and up
    to 64; for a prime length it is 1, and tiles of one row send nearly all their values.
    """
    number = max(1, math.ceil(length / LONGEST))
    return number, math.ceil(length / number)


class Tiles:
    """How a tensor of one shape is cut. Zeros fill the last tiles of a dimension that is no multiple of the edge.

    A tensor of two or more dimensions is a matrix with the first dimension's rows; any other is one row, whose tiles
    have at most 64 elements.
    """

    def __init__(self, shape: torch.Size) -> None:
        self._shape = shape
        self._rows = shape[0] if len(shape) > 1 else 1
        self._columns = shape.numel() // self._rows if self._rows else 0
        self._down, self.height = _edge(self._rows)
        self.across, self.width = _edge(self._columns)
        self.count = self._down * self.across
        self.size = self.height * self.width

    def cut(self, values: torch.Tensor) -> torch.Tensor:
        """[tiles, size], row-major within each tile."""
        down, across = self._down * self.height - self._rows, self.across * self.width - self._columns
        matrix = torch.nn.functional.pad(values.reshape(self._rows, self._columns), (0, across, 0, down))
        parts = matrix.view(self._down, self.height, self.across, self.width)
        return parts.transpose(1, 2).reshape(self.count, self.size)

    def filling(self) -> torch.Tensor | None:
        """Which elements of cut() are none of the tensor's; None: none are."""
        if self.count * self.size == self._shape.numel():
            return None
        return self.cut(torch.ones(self._shape, dtype=torch.uint8)) == 0

    def joined(self, tiles: torch.Tensor) -> torch.Tensor:
        """The tensor whose tiles they are, row-major, without what fills the last ones."""
        parts = tiles.view(self._down, self.across, self.height, self.width).transpose(1, 2)
        matrix = parts.reshape(self._down * self.height, self.across * self.width)
        return matrix[: self._rows, : self._columns].reshape(self._shape).contiguous()

    def largest(self, tiles: torch.Tensor, k: int) -> torch.Tensor:
        """Where the k values of largest magnitude of each tile are: [tiles, k], ascending (int64)."""
        return tiles.abs().topk(k, dim=1, sorted=False).indices.sort(dim=1).values
