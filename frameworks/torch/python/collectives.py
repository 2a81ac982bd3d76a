# SPDX-License-Identifier: Apache-2.0
"""Collective operations on tensors, with Horovod's names and meaning: those that start one, and those in place.

Every rank calls a function with the same name, dtype and options; calls without a name are matched by their order.
Tensors must not be changed until `synchronize()`, which returns the result. `codec`, `topology` and `partitions` of an
all-reduce are keyword arguments beside Horovod's: `codec` is what travels, e.g. "fp16" or "onebit"; biased codecs need
a name, under which they remember what they dropped.

All raise InvalidArgument, Unsupported, Mismatch, DuplicateName, PeerLost, Timeout, NotInitialized. Functions that wait
and have a derivative are in differentiable.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from hipress import collectives, operations, process_sets, reduce_ops
from hipress.errors import InvalidArgument
from hipress.operations import Operation, synchronize
from hipress.process_sets import ProcessSet, global_process_set
from hipress.reduce_ops import Average, ReduceOp, Sum
from hipress.torch import operators

_Tensors = Sequence[torch.Tensor]


def _start(kind: str, tensor: torch.Tensor, output: torch.Tensor, name: str | None, **options: Any) -> Operation:
    label = name or f"{kind} without a name"
    operators.check_tensor(tensor, label)
    operators.check_tensor(output, label)

    def submit(handle: int) -> int:
        if output is tensor:
            return operators.submit_in_place(tensor, handle)
        return operators.submit(tensor, output, handle)

    return collectives.declare(
        kind,
        name,
        submit,
        output,
        dtype=operators.DTYPE_NAMES[tensor.dtype],
        shape=tuple(tensor.shape),
        order=operators.memory_order(tensor),
        device=operators.device_of(tensor, label),
        **options,
    )


def _allreduce(
    tensor: torch.Tensor,
    output: torch.Tensor,
    average: bool | None,
    name: str | None,
    op: ReduceOp | None,
    prescale_factor: float,
    postscale_factor: float,
    process_set: ProcessSet,
    *,
    codec: str = "none",
    topology: str = "ps",
    partitions: int = 0,
) -> Operation:
    process_sets.check(process_set)
    collectives.check_codec_needs_name(name, codec)
    return _start(
        "allreduce",
        tensor,
        output,
        name,
        op=reduce_ops.chosen(op, average).name,
        prescale=prescale_factor,
        postscale=postscale_factor,
        codec=codec,
        topology=topology,
        partitions=partitions,
    )


def allreduce_async(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    **how: Any,
) -> Operation:
    """Starts combining `tensor` over all ranks into a new tensor. `how`: codec, topology, partitions."""
    output = torch.empty_like(tensor)
    return _allreduce(tensor, output, average, name, op, prescale_factor, postscale_factor, process_set, **how)


def allreduce_async_(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    **how: Any,
) -> Operation:
    """`allreduce_async()` in place."""
    return _allreduce(tensor, tensor, average, name, op, prescale_factor, postscale_factor, process_set, **how)


def allreduce_named(tensor: torch.Tensor, name: str | None) -> Operation:
    """Starts averaging `tensor`, under a name."""
    return allreduce_async(tensor, name=name)


def allreduce_(tensor: torch.Tensor, *arguments: Any, **named: Any) -> torch.Tensor:
    """`allreduce_async_()`, and waits."""
    result: torch.Tensor = synchronize(allreduce_async_(tensor, *arguments, **named))
    return result


def grouped_allreduce_async(
    tensors: _Tensors, average: bool | None = None, name: str | None = None, *arguments: Any, **named: Any
) -> Operation:
    """`allreduce_async()` of several tensors, as one operation whose result is a list."""
    return operations.grouped(
        [
            allreduce_async(tensor, average, part, *arguments, **named)
            for tensor, part in zip(tensors, part_names(tensors, name), strict=True)
        ]
    )


def grouped_allreduce_async_(
    tensors: _Tensors, average: bool | None = None, name: str | None = None, *arguments: Any, **named: Any
) -> Operation:
    """`grouped_allreduce_async()` in place."""
    return operations.grouped(
        [
            allreduce_async_(tensor, average, part, *arguments, **named)
            for tensor, part in zip(tensors, part_names(tensors, name), strict=True)
        ]
    )


def grouped_allreduce_(tensors: _Tensors, *arguments: Any, **named: Any) -> list[torch.Tensor]:
    """`grouped_allreduce_async_()`, and waits."""
    result: list[torch.Tensor] = synchronize(grouped_allreduce_async_(tensors, *arguments, **named))
    return result


def sparse_allreduce_async(
    tensor: torch.Tensor, name: str, op: ReduceOp | None = None, process_set: ProcessSet = global_process_set
) -> Operation:
    """Starts adding up (or averaging) sparse tensors: every rank gets the entries of all as a sparse tensor, in which
    an element may be named more than once.
    """
    op = reduce_ops.chosen(op)
    if op not in (Average, Sum):
        raise InvalidArgument(f"op={op!r} of sparse tensor '{name}': choose Average or Sum")
    entries = operations.grouped(
        [
            allgather_async(tensor._indices().t().contiguous(), f"{name}.indices", process_set),
            allgather_async(tensor._values().contiguous(), f"{name}.values", process_set),
        ]
    )

    def combined(gathered: list[torch.Tensor]) -> torch.Tensor:
        indices, values = gathered
        if op == Average:
            values = values / process_set.size()
        return torch.sparse_coo_tensor(indices.t(), values, tensor.shape)

    return entries.then(combined)


def broadcast_async(
    tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Operation:
    """Starts sending rank `root_rank`'s values to all ranks, into a new tensor."""
    process_sets.check(process_set)
    return _start("broadcast", tensor, torch.empty_like(tensor), name, root=root_rank)


def broadcast_async_(
    tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Operation:
    """`broadcast_async()` in place."""
    process_sets.check(process_set)
    return _start("broadcast", tensor, tensor, name, root=root_rank)


def broadcast_(
    tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """`broadcast_async_()`, and waits."""
    result: torch.Tensor = synchronize(broadcast_async_(tensor, root_rank, name, process_set))
    return result


def reducescatter_async(
    tensor: torch.Tensor,
    name: str | None = None,
    op: ReduceOp = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Operation:
    """Starts combining `tensor` over all ranks; this rank gets its rows of the result, the lower ranks one more if they
    do not divide evenly.
    """
    process_sets.check(process_set)
    collectives.check_has_rows(tuple(tensor.shape), "reducescatter", name)
    rows = collectives.divided_rows(tensor.shape[0])
    return _start(
        "reducescatter",
        tensor.contiguous(),
        tensor.new_empty((rows, *tensor.shape[1:])),
        name,
        op=reduce_ops.chosen(op).name,
        prescale=prescale_factor,
        postscale=postscale_factor,
        rows=tensor.shape[0],
    )


def grouped_reducescatter_async(tensors: _Tensors, name: str | None = None, *arguments: Any, **named: Any) -> Operation:
    """`reducescatter_async()` of several tensors, as one operation whose result is a list."""
    return operations.grouped(
        [
            reducescatter_async(tensor, part, *arguments, **named)
            for tensor, part in zip(tensors, part_names(tensors, name), strict=True)
        ]
    )


def allgather_async(
    tensor: torch.Tensor, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Operation:
    """Starts collecting the rows of all ranks, which may have different numbers of them.

    Tensors on GPUs pass through the host's memory.
    """
    process_sets.check(process_set)
    return allgather_with_rows_async(tensor, name).then(lambda gathered: gathered[0])


def allgather_with_rows_async(tensor: torch.Tensor, name: str | None = None) -> Operation:
    """As `allgather_async()`; the result is the rows, and a list of how many came from each rank."""
    values = _on_host(tensor, name or "allgather without a name")
    dtype = operators.DTYPE_NAMES[tensor.dtype]
    return collectives.allgather_with_rows(values, dtype=dtype, name=name).then(
        lambda gathered: (_from_host(gathered[0], tensor), gathered[1])
    )


def grouped_allgather_async(
    tensors: _Tensors, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Operation:
    """`allgather_async()` of several tensors, as one operation whose result is a list."""
    return operations.grouped(
        [
            allgather_async(tensor, part, process_set)
            for tensor, part in zip(tensors, part_names(tensors, name), strict=True)
        ]
    )


def alltoall_async(
    tensor: torch.Tensor,
    splits: Sequence[int] | torch.Tensor | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Operation:
    """Starts sending the first `splits[0]` rows to rank 0, the next `splits[1]` to rank 1, and so on; without splits
    equally many to each. The result is the rows from all ranks, and how many came from each.

    Tensors on GPUs pass through the host's memory.
    """
    process_sets.check(process_set)
    values = _on_host(tensor, name or "alltoall without a name")
    wanted = None if splits is None else [int(split) for split in splits]
    dtype = operators.DTYPE_NAMES[tensor.dtype]
    return collectives.alltoall(values, wanted, dtype=dtype, name=name).then(
        lambda moved: (_from_host(moved[0], tensor), torch.tensor(moved[1], dtype=torch.int32))
    )


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Waits until every rank has called it."""
    process_sets.check(process_set)
    collectives.barrier().wait()


def part_names(tensors: _Tensors, name: str | None) -> list[str | None]:
    """Of a group's tensors."""
    return [None if name is None else f"{name}.{index}" for index in range(len(tensors))]


def _on_host(tensor: torch.Tensor, name: str) -> np.ndarray[Any, Any]:
    operators.check_tensor(tensor, name)
    values = tensor.detach().contiguous().cpu()
    return (values.view(torch.int16) if values.dtype == torch.bfloat16 else values).numpy()


def _from_host(values: np.ndarray[Any, Any], like: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(values).view(like.dtype).to(like.device)
