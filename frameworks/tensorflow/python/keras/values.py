# SPDX-License-Identifier: Apache-2.0
"""Collective operations on values rather than tensors: what comes back are NumPy's."""

from __future__ import annotations

from typing import Any

from hipress.reduce_ops import ReduceOp
from hipress.tensorflow import collectives


def allreduce(
    value: Any,
    name: str | None = None,
    average: bool | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    op: ReduceOp | None = None,
) -> Any:
    """The combination of all ranks' `value`, a number or an array. Raises what hipress.tensorflow.allreduce() does."""
    return collectives.allreduce(value, average, name, op, prescale_factor, postscale_factor).numpy()


def broadcast(value: Any, root_rank: int, name: str | None = None) -> Any:
    """Rank `root_rank`'s `value`, a number or an array of the same shape on all ranks."""
    return collectives.broadcast(value, root_rank, name).numpy()
