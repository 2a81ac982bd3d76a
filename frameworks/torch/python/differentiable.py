# SPDX-License-Identifier: Apache-2.0
"""Collective operations that wait for their result and have Horovod's derivatives; see collectives.py for the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from hipress import process_sets, runtime
from hipress.compression import Compression, codec_of
from hipress.operations import Operation, grouped, synchronize
from hipress.process_sets import ProcessSet, global_process_set
from hipress.reduce_ops import Average, ReduceOp, Sum
from hipress.torch import collectives
from hipress.torch.collectives import part_names

_Tensors = Sequence[torch.Tensor]
_Names = Sequence[str | None]
#: Starts an operation for a tensor, under a name.
_Start = Callable[[torch.Tensor, str | None], Operation]


class _Collective(torch.autograd.Function):
    """`forward_all(tensors)` gives the results, `backward_all(gradients)` the gradients, of all tensors of a group."""

    @staticmethod
    def forward(ctx: Any, forward_all: Any, backward_all: Any, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.backward_all = backward_all
        return tuple(forward_all(tensors))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[Any, ...]:
        return (None, None, *ctx.backward_all([gradient.contiguous() for gradient in gradients]))


def _apply(forward_all: Any, backward_all: Any, tensors: _Tensors) -> list[torch.Tensor]:
    return list(_Collective.apply(forward_all, backward_all, *tensors))  # type: ignore[no-untyped-call]


def _all(start: _Start, tensors: _Tensors, names: _Names) -> list[Any]:
    """All of them overlap."""
    results: list[Any] = grouped([start(tensor, name) for tensor, name in zip(tensors, names, strict=True)]).wait()
    return results


def _of_gradients(names: _Names) -> _Names:
    return [f"{name}.gradient" if name else None for name in names]


def _allreduce(tensors: _Tensors, names: _Names, compression: str, codec: str, **arguments: Any) -> list[torch.Tensor]:
    def start(tensor: torch.Tensor, name: str | None) -> Operation:
        chosen = codec_of(compression, codec, floating=tensor.is_floating_point())
        return collectives.allreduce_async(tensor, name=name, codec=chosen, **arguments)

    # The gradient of an all-reduce is the all-reduce of the gradient.
    return _apply(
        lambda given: _all(start, given, names),
        lambda gradients: _all(start, gradients, _of_gradients(names)),
        tensors,
    )


def allreduce(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    compression: str = Compression.none,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    *,
    codec: str = "none",
    topology: str = "ps",
    partitions: int = 0,
) -> torch.Tensor:
    """The combination of all ranks' `tensor`, as a new tensor."""
    (result,) = _allreduce(
        [tensor],
        [name],
        compression,
        codec,
        average=average,
        op=op,
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
        process_set=process_set,
        topology=topology,
        partitions=partitions,
    )
    return result


def grouped_allreduce(
    tensors: _Tensors,
    average: bool | None = None,
    name: str | None = None,
    compression: str = Compression.none,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    *,
    codec: str = "none",
    topology: str = "ps",
    partitions: int = 0,
) -> list[torch.Tensor]:
    """`allreduce()` of several tensors."""
    return _allreduce(
        tensors,
        part_names(tensors, name),
        compression,
        codec,
        average=average,
        op=op,
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
        process_set=process_set,
        topology=topology,
        partitions=partitions,
    )


def broadcast(
    tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """Rank `root_rank`'s values, on every rank, as a new tensor."""

    def forward(given: _Tensors) -> list[Any]:
        return [synchronize(collectives.broadcast_async(given[0], root_rank, name, process_set))]

    def backward(gradients: _Tensors) -> list[torch.Tensor]:
        # The root's values are everybody's: it has the average of all ranks' gradients, the others have none.
        (average,) = _all(collectives.allreduce_named, gradients, _of_gradients([name]))
        return [average if runtime.rank() == root_rank else torch.zeros_like(average)]

    (result,) = _apply(forward, backward, [tensor])
    return result


def _allgather(tensors: _Tensors, names: _Names, process_set: ProcessSet) -> list[torch.Tensor]:
    process_sets.check(process_set)
    rows: list[list[int]] = []

    def forward(given: _Tensors) -> list[torch.Tensor]:
        results = _all(collectives.allgather_with_rows_async, given, names)
        rows.extend(of_ranks for _, of_ranks in results)
        return [result for result, _ in results]

    def backward(gradients: _Tensors) -> list[torch.Tensor]:
        # This rank's rows of the average of all ranks' gradients.
        averages = _all(collectives.allreduce_named, gradients, _of_gradients(names))
        rank = runtime.rank()
        return [
            average.narrow(0, sum(of_ranks[:rank]), of_ranks[rank])
            for average, of_ranks in zip(averages, rows, strict=True)
        ]

    return _apply(forward, backward, tensors)


def allgather(
    tensor: torch.Tensor, name: str | None = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """The rows of all ranks, in the order of the ranks; they may have different numbers of them."""
    (result,) = _allgather([tensor], [name], process_set)
    return result


def grouped_allgather(
    tensors: _Tensors, name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[torch.Tensor]:
    """`allgather()` of several tensors."""
    return _allgather(tensors, part_names(tensors, name), process_set)


def alltoall(
    tensor: torch.Tensor,
    splits: Sequence[int] | torch.Tensor | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """The rows that each rank has for this one, in the order of the ranks; with `splits`, also how many came from each.

    See `alltoall_async()`.
    """
    received: list[torch.Tensor] = []

    def forward(given: _Tensors) -> list[torch.Tensor]:
        result, rows = synchronize(collectives.alltoall_async(given[0], splits, name, process_set))
        received.append(rows)
        return [result]

    def backward(gradients: _Tensors) -> list[torch.Tensor]:
        # Gradients go back to where the rows came from.
        (gradient_name,) = _of_gradients([name])
        return [synchronize(collectives.alltoall_async(gradients[0], received[0], gradient_name))[0]]

    (result,) = _apply(forward, backward, [tensor])
    return result if splits is None else (result, received[0])


def _reducescatter(
    tensors: _Tensors, names: _Names, compression: str, op: ReduceOp, prescale: float, postscale: float
) -> list[torch.Tensor]:
    codec_of(compression, "none")
    wide = [tensor.dtype for tensor in tensors]

    def start(tensor: torch.Tensor, name: str | None) -> Operation:
        return collectives.reducescatter_async(tensor, name, op, prescale_factor=prescale, postscale_factor=postscale)

    def forward(given: _Tensors) -> list[torch.Tensor]:
        if compression == Compression.fp16:
            given = [tensor.half() if tensor.is_floating_point() else tensor for tensor in given]
        results = _all(start, given, names)
        return [result.to(dtype) for result, dtype in zip(results, wide, strict=True)]

    def backward(gradients: _Tensors) -> list[torch.Tensor]:
        # Every rank's gradient, of the rows it got, reaches all ranks: times their number unless they were averaged.
        factor = prescale * postscale * (runtime.size() if op == Sum else 1)
        scaled = [gradient * factor for gradient in gradients]
        return _all(collectives.allgather_async, scaled, _of_gradients(names))

    return _apply(forward, backward, tensors)


def reducescatter(
    tensor: torch.Tensor,
    name: str | None = None,
    compression: str = Compression.none,
    op: ReduceOp = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> torch.Tensor:
    """This rank's rows of the combination of all ranks' `tensor`. See `reducescatter_async()`."""
    process_sets.check(process_set)
    (result,) = _reducescatter([tensor], [name], compression, op, prescale_factor, postscale_factor)
    return result


def grouped_reducescatter(
    tensors: _Tensors,
    name: str | None = None,
    compression: str = Compression.none,
    op: ReduceOp = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[torch.Tensor]:
    """`reducescatter()` of several tensors."""
    process_sets.check(process_set)
    names = part_names(tensors, name)
    return _reducescatter(tensors, names, compression, op, prescale_factor, postscale_factor)
