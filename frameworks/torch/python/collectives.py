# SPDX-License-Identifier: Apache-2.0
"""Collective operations on tensors, with Horovod's names and meaning: functions that start one, or work in place.

Every rank of `process_set`, all ranks by default, calls a function with the same name, dtype and options; calls without
a name are matched by their order. Each says "all ranks" of the ranks of its set.
Tensors must not be changed until `synchronize()`, which returns the result. `codec`, `topology` and `partitions` of an
all-reduce are keyword arguments beside Horovod's: `codec` compresses the values, e.g. "fp16" or "onebit"; biased codecs
need a name, under which they keep the residual. For them `scaler` is the torch.amp.GradScaler whose scale the values
have.

All raise InvalidArgument, Unsupported, Mismatch, DuplicateName, PeerLost, Timeout, NotInitialized. The functions that
wait and have a derivative are in differentiable.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from hipress.adapter import collectives, operations, reduce_ops
from hipress.adapter.collective_options import of_part
from hipress.adapter.complex_values import check_combines
from hipress.adapter.operations import Operation, part_name, tells_refusals
from hipress.adapter.process_sets import ProcessSet, check, global_process_set
from hipress.adapter.reduce_ops import Average, ReduceOp, Sum
from hipress.errors import InvalidArgument
from hipress.options.declaration import filled
from hipress.options.signatures import in_order, takes
from hipress.torch import operators
from hipress.torch.installed.private_names import sparse_parts
from hipress.torch.options import TorchAllreduceOptions
from hipress.torch.reals import as_reals, resolved
from hipress.torch.scaling.named_values import NamedScales

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: Horovod's order of the arguments of an all-reduce of one tensor, and of several.
_ONE = "tensor average name op prescale_factor postscale_factor process_set"
_SEVERAL = "tensors average name op prescale_factor postscale_factor process_set"


def _start(
    kind: str,
    tensor: torch.Tensor,
    output: torch.Tensor,
    name: str | None,
    process_set: ProcessSet,
    scale: float | None = None,
    **options: Any,
) -> Operation[torch.Tensor]:
    """`scale`: the loss scale of values of which the codec keeps something."""
    operators.check_is_tensor(tensor, kind, name)
    label = name or f"{kind} without a name"
    operators.check_tensor(tensor, label)
    if output is not tensor:
        operators.check_tensor(output, label)
    written = as_reals(output)
    given = written if output is tensor else as_reals(tensor)

    def submit(handle: int) -> int:
        if scale is not None:
            NamedScales.of_this_engine().follow(scale, process_set.named(label), handle)
        stream = operators.stream_of(output)
        if output is tensor:
            operation = operators.submit_in_place(written, handle, stream=stream)
        else:
            operation = operators.submit(given, written, handle, stream=stream)
        if operation < 0:
            operators.raise_refusal(output, label)
        return int(operation)

    return collectives.declare(
        kind,
        name,
        submit,
        output,
        dtype=operators.core_type(tensor),
        shape=operators.core_shape(tensor),
        order=operators.memory_order(tensor),
        device=operators.device_of(tensor, label),
        process_set=process_set,
        **options,
    )


def _allreduce(
    tensor: torch.Tensor, output: torch.Tensor, **options: Unpack[TorchAllreduceOptions]
) -> Operation[torch.Tensor]:
    given = filled(TorchAllreduceOptions, options)
    process_set = check(given["process_set"])
    collectives.check_codec_needs_name(given["name"], given["codec"])
    op = reduce_ops.chosen(given["op"], given["average"])
    operators.check_is_tensor(tensor, "allreduce", given["name"])
    _check_combines(tensor, given["name"], op)
    return _start(
        "allreduce",
        tensor,
        output,
        given["name"],
        process_set,
        NamedScales.of_this_engine().scale(
            given["scaler"], given["name"] and process_set.named(given["name"]), given["codec"]
        ),
        op=op.name,
        prescale=given["prescale_factor"],
        postscale=given["postscale_factor"],
        codec=given["codec"],
        topology=given["topology"],
        partitions=given["partitions"],
    )


def _check_combines(tensor: torch.Tensor, name: str | None, op: ReduceOp) -> None:
    if tensor.is_complex():
        check_combines(name or "without a name", str(tensor.dtype).removeprefix("torch."), op)


@in_order(_ONE)
@takes(TorchAllreduceOptions)
@tells_refusals("allreduce")
def allreduce_async(tensor: torch.Tensor, **options: Unpack[TorchAllreduceOptions]) -> Operation[torch.Tensor]:
    """Starts combining `tensor` over all ranks into a new tensor."""
    operators.check_is_tensor(tensor, "allreduce", options.get("name"))
    values = resolved(tensor)
    return _allreduce(values, torch.empty_like(values), **options)


@in_order(_ONE)
@takes(TorchAllreduceOptions)
@tells_refusals("allreduce")
def allreduce_async_(tensor: torch.Tensor, **options: Unpack[TorchAllreduceOptions]) -> Operation[torch.Tensor]:
    """`allreduce_async()` in place."""
    return _allreduce(tensor, tensor, **options)


@in_order(_ONE)
@takes(TorchAllreduceOptions)
def allreduce_(tensor: torch.Tensor, **options: Unpack[TorchAllreduceOptions]) -> torch.Tensor:
    """Calls `allreduce_async_()` and waits for the result."""
    return allreduce_async_(tensor, **options).wait()


def _in_parts(
    tensors: Sequence[torch.Tensor], options: TorchAllreduceOptions, start: Any
) -> Operation[list[torch.Tensor]]:
    parts = [of_part(options, part) for part in range(len(tensors))]
    return operations.in_parts(
        "allreduce",
        lambda part: start(tensors[part], **parts[part]),
        [each["name"] for each in parts],
        options.get("process_set", global_process_set),
    )


@in_order(_SEVERAL)
@takes(TorchAllreduceOptions)
def grouped_allreduce_async(
    tensors: Sequence[torch.Tensor], **options: Unpack[TorchAllreduceOptions]
) -> Operation[list[torch.Tensor]]:
    """`allreduce_async()` of several tensors, as one operation whose result is a list."""
    return _in_parts(tensors, options, allreduce_async)


@in_order(_SEVERAL)
@takes(TorchAllreduceOptions)
def grouped_allreduce_async_(
    tensors: Sequence[torch.Tensor], **options: Unpack[TorchAllreduceOptions]
) -> Operation[list[torch.Tensor]]:
    """`grouped_allreduce_async()` in place."""
    return _in_parts(tensors, options, allreduce_async_)


@in_order(_SEVERAL)
@takes(TorchAllreduceOptions)
def grouped_allreduce_(tensors: Sequence[torch.Tensor], **options: Unpack[TorchAllreduceOptions]) -> list[torch.Tensor]:
    """Calls `grouped_allreduce_async_()` and waits for the result."""
    return grouped_allreduce_async_(tensors, **options).wait()


def sparse_allreduce_async(
    tensor: torch.Tensor, name: str, op: ReduceOp | None = None, process_set: ProcessSet = global_process_set
) -> Operation[torch.Tensor]:
    """Starts adding up (or averaging) sparse tensors. Every rank gets the elements of all ranks as one sparse tensor,
    in which an index may occur more than once.
    """
    op = reduce_ops.chosen(op)
    operators.check_is_tensor(tensor, "sparse allreduce", name)
    if op not in (Average, Sum):
        raise InvalidArgument(f"op={op!r} of sparse tensor '{name}': choose Average or Sum")
    indices, values = sparse_parts(tensor)
    entries = operations.grouped(
        [
            allgather_async(indices.t().contiguous(), f"{name}.indices", process_set),
            allgather_async(resolved(values).contiguous(), f"{name}.values", process_set),
        ]
    )

    def combined(gathered: list[torch.Tensor]) -> torch.Tensor:
        indices, values = gathered
        if op == Average and values.is_complex():
            values = torch.view_as_complex(torch.view_as_real(values) / process_set.size())
        elif op == Average:
            values = values / process_set.size()
        return torch.sparse_coo_tensor(indices.t(), values, tensor.shape)

    return entries.then(combined)


@tells_refusals("broadcast")
def broadcast_async(
    tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Operation[torch.Tensor]:
    """Starts sending rank `root_rank`'s values to all ranks of the set, into a new tensor."""
    operators.check_is_tensor(tensor, "broadcast", name)
    values = resolved(tensor)
    return _start("broadcast", values, torch.empty_like(values), name, process_set, root=root_rank)


@tells_refusals("broadcast")
def broadcast_async_(
    tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Operation[torch.Tensor]:
    """`broadcast_async()` in place."""
    return _start("broadcast", tensor, tensor, name, process_set, root=root_rank)


def broadcast_(
    tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """Calls `broadcast_async_()` and waits for the result."""
    return broadcast_async_(tensor, root_rank, name, process_set).wait()


@tells_refusals("reducescatter")
def reducescatter_async(
    tensor: torch.Tensor,
    name: str | None = None,
    op: ReduceOp = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Operation[torch.Tensor]:
    """Starts combining `tensor` over all ranks; this rank gets its rows of the result. If the rows do not divide
    evenly, the lower ranks get one row more.
    """
    operators.check_is_tensor(tensor, "reducescatter", name)
    collectives.check_has_rows(tuple(tensor.shape), "reducescatter", name)
    rows = collectives.divided_rows(tensor.shape[0], process_set)
    op = reduce_ops.chosen(op)
    _check_combines(tensor, name, op)
    values = resolved(tensor).contiguous()
    return _start(
        "reducescatter",
        values,
        values.new_empty((rows, *tensor.shape[1:])),
        name,
        process_set,
        op=op.name,
        prescale=prescale_factor,
        postscale=postscale_factor,
        rows=tensor.shape[0],
    )


def grouped_reducescatter_async(
    tensors: Sequence[torch.Tensor],
    name: str | None = None,
    op: ReduceOp = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Operation[list[torch.Tensor]]:
    """`reducescatter_async()` of several tensors, as one operation whose result is a list."""
    names = [part_name(name, part) for part in range(len(tensors))]

    def start(part: int) -> Operation[torch.Tensor]:
        return reducescatter_async(tensors[part], names[part], op, process_set, prescale_factor, postscale_factor)

    return operations.in_parts("reducescatter", start, names, process_set)


def allgather_async(
    tensor: torch.Tensor, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Operation[torch.Tensor]:
    """Starts collecting the rows of all ranks. Ranks may have different numbers of rows.

    Tensors on GPUs pass through the host's memory.
    """
    return allgather_with_rows_async(tensor, name, process_set).then(lambda gathered: gathered[0])


@tells_refusals("allgather")
def allgather_with_rows_async(
    tensor: torch.Tensor, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Operation[tuple[torch.Tensor, list[int]]]:
    """Does as `allgather_async()`; the result is the rows, and a list of the number of rows of each rank."""
    operators.check_is_tensor(tensor, "allgather", name)
    collectives.check_has_rows(tuple(tensor.shape), "allgather", name)
    values = _on_host(tensor, name or "allgather without a name")
    dtype = operators.core_type(tensor)
    return collectives.allgather_with_rows(values, dtype=dtype, name=name, process_set=process_set).then(
        lambda gathered: (_from_host(gathered[0], tensor), gathered[1])
    )


def grouped_allgather_async(
    tensors: Sequence[torch.Tensor], name: str | None = None, process_set: ProcessSet = global_process_set
) -> Operation[list[torch.Tensor]]:
    """`allgather_async()` of several tensors, as one operation whose result is a list."""
    names = [part_name(name, part) for part in range(len(tensors))]
    return operations.in_parts(
        "allgather", lambda part: allgather_async(tensors[part], names[part], process_set), names, process_set
    )


@tells_refusals("alltoall")
def alltoall_async(
    tensor: torch.Tensor,
    splits: Sequence[int] | torch.Tensor | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Operation[tuple[torch.Tensor, torch.Tensor]]:
    """Starts sending the first `splits[0]` rows to the first rank of the set, the next `splits[1]` rows to the second
    one, and so on; without `splits` every rank gets equally many. The result is the rows from all ranks, and the number
    of rows of each rank.

    Tensors on GPUs pass through the host's memory.
    """
    operators.check_is_tensor(tensor, "alltoall", name)
    collectives.check_has_rows(tuple(tensor.shape), "alltoall", name)
    values = _on_host(tensor, name or "alltoall without a name")
    wanted = splits.cpu().numpy() if isinstance(splits, torch.Tensor) else splits
    dtype = operators.core_type(tensor)
    return collectives.alltoall(values, wanted, dtype=dtype, name=name, process_set=process_set).then(
        lambda moved: (_from_host(moved[0], tensor), torch.tensor(moved[1], dtype=torch.int32))
    )


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Waits until every rank of the set has called it."""
    collectives.barrier(process_set).wait()


def _on_host(tensor: torch.Tensor, name: str) -> np.ndarray[Any, Any]:
    """The values as the core takes them: complex numbers in a last dimension of two, bfloat16 as int16."""
    given = resolved(tensor.detach())
    operators.check_tensor(given, name)
    values = given.contiguous().cpu()
    if values.is_complex():
        values = torch.view_as_real(values)
    return (values.view(torch.int16) if values.dtype == torch.bfloat16 else values).numpy()


def _from_host(values: np.ndarray[Any, Any], like: torch.Tensor) -> torch.Tensor:
    moved = torch.from_numpy(values)
    if like.is_complex():
        return torch.view_as_complex(moved).to(like.device)
    return moved.view(like.dtype).to(like.device)
