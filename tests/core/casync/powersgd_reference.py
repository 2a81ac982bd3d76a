# SPDX-License-Identifier: Apache-2.0
"""PowerSGD of all ranks in NumPy; tests compare the engine with it.

Vogels et al., "PowerSGD: Practical Low-Rank Gradient Compression for Distributed Optimization", NeurIPS 2019,
algorithms 1 and 2. The reference computes sums in float64, and rounds them to float32 where the engine keeps float32.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]


def drawn(step: int, vector: int, length: int) -> Floats:
    """The first values of a vector of the right factor: SplitMix64's output, scaled to -1 ... 1."""
    index = np.arange(length, dtype=np.uint64)
    with np.errstate(over="ignore"):
        mixed = ((np.uint64(step) << np.uint64(40)) ^ (np.uint64(vector) << np.uint64(32)) ^ index) + np.uint64(
            0x9E3779B97F4A7C15
        )
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return ((mixed >> np.uint64(40)).astype(np.float32) - np.float32(2**23)) / np.float32(2**23)


def _unit(vector: Floats, before: Sequence[Floats]) -> Floats | None:
    """The part of the vector that is orthogonal to the vectors `before`, with length 1; None if nothing is left."""
    largest = np.max(np.abs(vector))
    if largest == 0:
        return None
    values: Doubles = vector.astype(np.float64) / np.float64(largest)
    length = np.linalg.norm(values)
    for _ in range(2):
        for other in before:
            values = values - (values @ other.astype(np.float64)) * other
    left = np.linalg.norm(values)
    return None if left <= 2.0**-22 * length else (values / left).astype(np.float32)


def orthogonal(factor: Floats, step: int | None = None) -> Floats:
    """The rows of `factor`, made orthogonal. A row without an orthogonal part is drawn for `step`, or is zero without
    one."""
    rows: list[Floats] = []
    for index, row in enumerate(factor):
        unit = _unit(row, rows)
        if unit is None and step is not None:
            unit = _unit(drawn(step, index, row.size), rows)
        rows.append(np.zeros_like(row) if unit is None else unit)
    return np.array(rows, np.float32)


class Reference:
    """All ranks' factors and residuals of one matrix."""

    def __init__(
        self, shape: tuple[int, int], world: int, *, rank: int = 1, error_feedback: bool = True, warm_start: bool = True
    ) -> None:
        self.shape = shape
        self.rank = min(rank, *shape)
        self.warm_start = warm_start
        self.error_feedback = error_feedback
        self.residuals = [np.zeros(shape, np.float32) for _ in range(world)]
        self.right = np.zeros((self.rank, shape[1]), np.float32)
        self.steps = 0

    def step(self, gradients: Sequence[Floats | None]) -> Floats:
        """The mean of the ranks' gradients in PowerSGD's approximation, in which a rank without one counts as zeros."""
        present = [rank for rank, gradient in enumerate(gradients) if gradient is not None]
        with np.errstate(all="ignore"):
            matrices = [
                gradient.reshape(self.shape) + (residual if self.error_feedback else np.float32(0))
                for gradient, residual in zip(gradients, self.residuals, strict=True)
                if gradient is not None
            ]
            right = orthogonal(self.right if self.warm_start else np.zeros_like(self.right), self.steps)
            self.steps += 1
            left = _sum([_product(right, matrix.T) for matrix in matrices])
            if not np.isfinite(left).all():
                return np.full(self.shape, np.nan, np.float32)
            left = orthogonal(left)
            right = _sum([_product(left, matrix) for matrix in matrices])
            if not np.isfinite(right).all():
                return np.full(self.shape, np.nan, np.float32)
            self.right = right * np.float32(1 / len(present))
            mean = _product(left.T, self.right)
            for rank, matrix in zip(present, matrices, strict=True):
                self.residuals[rank] = matrix - mean
        return mean * np.float32(len(present) / len(gradients))


def _product(a: Floats, b: Floats) -> Floats:
    return (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)


def _sum(parts: Sequence[Floats]) -> Floats:
    total = parts[0].copy()
    for part in parts[1:]:
        total = total + part
    return total
