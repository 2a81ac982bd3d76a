# SPDX-License-Identifier: Apache-2.0
"""Collective operations on numbers or arrays instead of tensors; they return NumPy arrays.

They raise the errors of the same functions of hipress.tensorflow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from hipress.adapter.collective_options import CompressedAllreduceOptions
from hipress.adapter.reduce_ops import Average, ReduceOp
from hipress.options.signatures import in_order, takes
from hipress.tensorflow import collectives

if TYPE_CHECKING:
    from typing_extensions import Unpack


@in_order("value name average prescale_factor postscale_factor op compression")
@takes(CompressedAllreduceOptions)
def allreduce(value: Any, **options: Unpack[CompressedAllreduceOptions]) -> NDArray[Any]:
    """The combination of all ranks' `value`."""
    combined: NDArray[Any] = collectives.allreduce(value, **options).numpy()
    return combined


def allgather(value: Any, name: str | None = None) -> NDArray[Any]:
    """The rows of all ranks, in rank order."""
    rows: NDArray[Any] = collectives.allgather(value, name).numpy()
    return rows


def broadcast(value: Any, root_rank: int, name: str | None = None) -> NDArray[Any]:
    """Rank `root_rank`'s `value`, which has the same shape on all ranks."""
    values: NDArray[Any] = collectives.broadcast(value, root_rank, name).numpy()
    return values


def reducescatter(value: Any, name: str | None = None, op: ReduceOp = Average) -> NDArray[Any]:
    """This rank's rows of the combination of all ranks' `value`."""
    rows: NDArray[Any] = collectives.reducescatter(value, name=name, op=op).numpy()
    return rows
