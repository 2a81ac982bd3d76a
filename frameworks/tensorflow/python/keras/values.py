# SPDX-License-Identifier: Apache-2.0
"""Collective operations on values, numbers or arrays, rather than tensors: what comes back are NumPy's.

They raise what those of hipress.tensorflow do.
"""

from __future__ import annotations

from typing import Any

from hipress.compression import Compression
from hipress.reduce_ops import Average, ReduceOp
from hipress.tensorflow import collectives


def allreduce(
    value: Any,
    name: str | None = None,
    average: bool | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    op: ReduceOp | None = None,
    compression: str = Compression.none,
) -> Any:
    """The combination of all ranks' `value`."""
    return collectives.allreduce(
        value,
        average,
        name=name,
        op=op,
        compression=compression,
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
    ).numpy()


def allgather(value: Any, name: str | None = None) -> Any:
    """The rows of all ranks, in the order of the ranks."""
    return collectives.allgather(value, name).numpy()


def broadcast(value: Any, root_rank: int, name: str | None = None) -> Any:
    """Rank `root_rank`'s `value`, which has the same shape on all ranks."""
    return collectives.broadcast(value, root_rank, name).numpy()


def reducescatter(value: Any, name: str | None = None, op: ReduceOp = Average) -> Any:
    """This rank's rows of the combination of all ranks' `value`."""
    return collectives.reducescatter(value, name=name, op=op).numpy()
