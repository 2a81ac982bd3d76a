# SPDX-License-Identifier: Apache-2.0
"""The inputs of ranks: each rank can compute the inputs of all other ranks."""

from __future__ import annotations

import numpy as np

from tests.frameworks.adapters.adapter import Adapter, Array


def of_rank(rank: int, shape: tuple[int, ...], dtype: str = "float32") -> Array:
    """Small whole numbers; their sums and products are exact in every element type."""
    return (
        np.random.default_rng([rank, *shape]).integers(0 if dtype in ("uint8", "bool") else -2, 3, shape).astype(dtype)
    )


def of_all(adapter: Adapter, shape: tuple[int, ...], dtype: str = "float32") -> list[Array]:
    return [of_rank(rank, shape, dtype) for rank in range(adapter.module.size())]


def own(adapter: Adapter, shape: tuple[int, ...], dtype: str = "float32") -> Array:
    return of_rank(adapter.module.rank(), shape, dtype)


def divided(rows: int, size: int) -> list[int]:
    """The numbers of rows that reducescatter gives to the ranks."""
    return [rows // size + (rank < rows % size) for rank in range(size)]


def normal(rank: int, count: int) -> Array:
    return np.random.default_rng([17, rank]).standard_normal(count).astype(np.float32)
