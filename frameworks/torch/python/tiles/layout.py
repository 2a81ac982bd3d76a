# SPDX-License-Identifier: Apache-2.0
"""Divides a tensor into equal tiles."""

from __future__ import annotations

import math

import torch

#: The longest edge of a tile. SparseLoCo and DeMo use 64.
LONGEST = 64


def _edge(length: int) -> tuple[int, int]:
    """Number and edge of the fewest equal tiles, with edges of at most LONGEST, that cover `length`.

    The published codes take the largest divisor of `length` up to 64 as the edge. Both rules agree for multiples of 64
    and for lengths up to 64. For a longer prime length the divisor is 1, and tiles of one row send nearly all their
    values.
    """
    number = max(1, math.ceil(length / LONGEST))
    return number, math.ceil(length / number)


class Tiles:
    """The tiles of a tensor of one shape. Zeros fill the last tiles of a dimension that is no multiple of the edge.

    A tensor of two or more dimensions becomes a matrix that keeps the first dimension. Any other tensor becomes one
    row, whose tiles have at most 64 elements.
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
        """The values as tiles, shape [tiles, size], row-major within each tile."""
        down, across = self._down * self.height - self._rows, self.across * self.width - self._columns
        matrix = torch.nn.functional.pad(values.reshape(self._rows, self._columns), (0, across, 0, down))
        parts = matrix.view(self._down, self.height, self.across, self.width)
        return parts.transpose(1, 2).reshape(self.count, self.size)

    def filling(self) -> torch.Tensor | None:
        """A mask of the elements of cut() that only fill the last tiles; None: there are none."""
        if self.count * self.size == self._shape.numel():
            return None
        return self.cut(torch.ones(self._shape, dtype=torch.uint8)) == 0

    def joined(self, tiles: torch.Tensor) -> torch.Tensor:
        """The tensor that cut() divided into `tiles`, row-major, without the elements that fill the last tiles."""
        parts = tiles.view(self._down, self.across, self.height, self.width).transpose(1, 2)
        matrix = parts.reshape(self._down * self.height, self.across * self.width)
        return matrix[: self._rows, : self._columns].reshape(self._shape).contiguous()

    def largest(self, tiles: torch.Tensor, k: int) -> torch.Tensor:
        """The indices of each tile's k values of largest magnitude: shape [tiles, k], ascending (int64)."""
        return tiles.abs().topk(k, dim=1, sorted=False).indices.sort(dim=1).values
