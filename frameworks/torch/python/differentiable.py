# SPDX-License-Identifier: Apache-2.0
"""Collectives that wait for their result and have Horovod's derivatives; all others are in collectives.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

import torch

from hipress import runtime
from hipress._library import load_core
from hipress.adapter import process_sets, reduce_ops
from hipress.adapter.compression import Compressing, codec_of, compressed, compressor_of
from hipress.adapter.operations import Operation, in_parts, part_name, tells_refusals
from hipress.adapter.process_sets import ProcessSet, global_process_set
from hipress.adapter.reduce_ops import Average, ReduceOp, Sum
from hipress.options.declaration import filled
from hipress.options.signatures import in_order, takes
from hipress.torch import collectives
from hipress.torch.compression import Compression
from hipress.torch.operators import check_is_tensor
from hipress.torch.options import TorchCompressedAllreduceOptions
from hipress.torch.scaling.loss_scale import UNSCALED

if TYPE_CHECKING:
    from typing_extensions import Unpack

_Tensors = Sequence[torch.Tensor]
_Names = Sequence[str | None]


class _Collective(torch.autograd.Function):
    """A collective on several tensors: `forward_all(tensors)` returns all results, `backward_all(gradients)` all
    gradients.

    The operations in `backward_all` have derivatives, too: a collective can be differentiated any number of times.
    """

    @staticmethod
    def forward(ctx: Any, forward_all: Any, backward_all: Any, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.backward_all = backward_all
        return tuple(forward_all(tensors))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[Any, ...]:
        return (None, None, *ctx.backward_all([gradient.contiguous() for gradient in gradients]))


def _apply(forward_all: Any, backward_all: Any, tensors: _Tensors) -> list[torch.Tensor]:
    return list(_Collective.apply(forward_all, backward_all, *tensors))  # type: ignore[no-untyped-call]


class _Derivatives:
    """Names of the operations that compute the derivatives of one call.

    autograd runs these operations in an order that may differ between ranks, and perhaps in another thread. So their
    names depend on the call alone.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self._times = 0

    def differentiated(self) -> _Derivatives:
        """The names for the derivatives' derivatives. A program can differentiate one call several times."""
        self._times += 1
        return _Derivatives([f"{name}.gradient#{self._times}" for name in self.names])


def _derivatives(kind: str, names: _Names, process_set: ProcessSet, codec: str = "none") -> _Derivatives:
    """The names for a call that starts now. A codec finds its states by name, so each step then uses the same name."""
    own = [f"{name or f'unnamed {kind}'}.gradient" for name in names]
    remembers = codec != "none" and bool(load_core().create_codec(codec).states)
    return _Derivatives(own if remembers else [process_sets.check(process_set).numbered(name) for name in own])


def _allreduce(
    tensors: _Tensors, names: _Names, **options: Unpack[TorchCompressedAllreduceOptions]
) -> list[torch.Tensor]:
    for tensor, name in zip(tensors, names, strict=True):
        check_is_tensor(tensor, "allreduce", name)
    given = filled(TorchCompressedAllreduceOptions, options)
    compression, codec = given.pop("compression"), given.pop("codec")
    op = reduce_ops.chosen(given.pop("op"), given.pop("average"))
    del given["name"]
    summed = op in (Average, Sum)
    derivatives = _derivatives("allreduce", names, given["process_set"], codec_of(compression, codec, summed=summed))
    sent, decompressed = compressed(compressor_of(compression, summed=summed), tensors)
    codecs = [codec_of(compression, codec, floating=_has_reals(tensor), summed=summed) for tensor in sent]
    differentiated = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in sent)
    scalers = (UNSCALED if differentiated and given["scaler"] is not None else given["scaler"]), given.pop("scaler")
    return decompressed(_allreduced(sent, names, derivatives, codecs, scalers, op=op, **given))


def _has_reals(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _allreduced(
    tensors: _Tensors,
    names: _Names,
    derivatives: _Derivatives,
    codecs: Sequence[str],
    scalers: tuple[Any, Any],
    **options: Any,
) -> list[torch.Tensor]:
    """`scalers`: those whose scale the tensors have, and their gradients."""
    of_values, of_gradients = scalers

    def forward(given: _Tensors) -> list[Any]:
        def start(part: int) -> Operation[torch.Tensor]:
            own = {"name": names[part], "codec": codecs[part], "scaler": of_values}
            return collectives.allreduce_async(given[part], **own, **options)

        results: list[Any] = in_parts("allreduce", start, names, options["process_set"]).wait()
        return results

    def backward(gradients: _Tensors) -> list[torch.Tensor]:
        scalers = of_gradients, of_gradients
        return _allreduced(gradients, derivatives.names, derivatives.differentiated(), codecs, scalers, **options)

    return _apply(forward, backward, tensors)


def _averaged(gradients: _Tensors, derivatives: _Derivatives, process_set: ProcessSet) -> list[torch.Tensor]:
    exact, unscaled = ["none"] * len(gradients), (UNSCALED, UNSCALED)
    names, own = derivatives.names, derivatives.differentiated()
    return _allreduced(gradients, names, own, exact, unscaled, op=Average, process_set=process_set)


@in_order("tensor average name compression op prescale_factor postscale_factor process_set")
@takes(TorchCompressedAllreduceOptions)
@tells_refusals("allreduce")
def allreduce(tensor: torch.Tensor, **options: Unpack[TorchCompressedAllreduceOptions]) -> torch.Tensor:
    """The combination of all ranks' `tensor`, as a new tensor."""
    (result,) = _allreduce([tensor], [options.get("name")], **options)
    return result


@in_order("tensors average name compression op prescale_factor postscale_factor process_set")
@takes(TorchCompressedAllreduceOptions)
@tells_refusals("allreduce")
def grouped_allreduce(tensors: _Tensors, **options: Unpack[TorchCompressedAllreduceOptions]) -> list[torch.Tensor]:
    """`allreduce()` of several tensors."""
    return _allreduce(tensors, _part_names(tensors, options.get("name")), **options)


def _part_names(tensors: _Tensors, name: str | None) -> _Names:
    return [part_name(name, part) for part in range(len(tensors))]


@tells_refusals("broadcast")
def broadcast(
    tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """Rank `root_rank`'s values, on every rank, as a new tensor."""

    derivatives = _derivatives("broadcast", [name], process_set)

    def forward(given: _Tensors) -> list[Any]:
        return [collectives.broadcast_async(given[0], root_rank, name, process_set).wait()]

    def backward(gradients: _Tensors) -> list[torch.Tensor]:
        # All ranks have the root's values: the root gets the average of all ranks' gradients, the other ranks get
        # zeros. Yet the derivative of this average is a collective, in which all ranks take part.
        (average,) = _averaged(gradients, derivatives, process_set)
        is_root = runtime.rank() == root_rank
        return [average if is_root else average.masked_fill(torch.ones_like(average, dtype=torch.bool), 0)]

    (result,) = _apply(forward, backward, [tensor])
    return result


def _allgather(tensors: _Tensors, names: _Names, process_set: ProcessSet) -> list[torch.Tensor]:
    return _allgathered(tensors, names, _derivatives("allgather", names, process_set), process_set)


def _allgathered(
    tensors: _Tensors, names: _Names, derivatives: _Derivatives, process_set: ProcessSet
) -> list[torch.Tensor]:
    rows: list[list[int]] = []

    def forward(given: _Tensors) -> list[torch.Tensor]:
        def start(part: int) -> Operation[tuple[torch.Tensor, list[int]]]:
            return collectives.allgather_with_rows_async(given[part], names[part], process_set)

        results = in_parts("allgather", start, names, process_set).wait()
        rows.extend(of_ranks for _, of_ranks in results)
        return [result for result, _ in results]

    def backward(gradients: _Tensors) -> list[torch.Tensor]:
        # This rank's rows of the average of all ranks' gradients.
        rank = process_set.rank()
        return [
            average.narrow(0, sum(of_ranks[:rank]), of_ranks[rank])
            for average, of_ranks in zip(_averaged(gradients, derivatives, process_set), rows, strict=True)
        ]

    return _apply(forward, backward, tensors)


@tells_refusals("allgather")
def allgather(
    tensor: torch.Tensor, name: str | None = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """The rows of all ranks, in rank order. Ranks may have different numbers of rows."""
    (result,) = _allgather([tensor], [name], process_set)
    return result


@tells_refusals("allgather")
def grouped_allgather(
    tensors: _Tensors, name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[torch.Tensor]:
    """`allgather()` of several tensors."""
    return _allgather(tensors, _part_names(tensors, name), process_set)


@overload
def alltoall(
    tensor: torch.Tensor, splits: None = None, name: str | None = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor: ...
@overload
def alltoall(
    tensor: torch.Tensor,
    splits: Sequence[int] | torch.Tensor,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> tuple[torch.Tensor, torch.Tensor]: ...
@tells_refusals("alltoall")
def alltoall(
    tensor: torch.Tensor,
    splits: Sequence[int] | torch.Tensor | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """The rows that each rank has sent to this rank, in rank order; with `splits`, also the number of rows of each
    rank.

    See `alltoall_async()`.
    """
    derivatives = _derivatives("alltoall", [name], process_set)
    result, received = _exchanged(tensor, splits, name, derivatives, process_set)
    return result if splits is None else (result, received)


def _exchanged(
    tensor: torch.Tensor,
    splits: Sequence[int] | torch.Tensor | None,
    name: str | None,
    derivatives: _Derivatives,
    process_set: ProcessSet,
) -> tuple[torch.Tensor, torch.Tensor]:
    received: list[torch.Tensor] = []

    def forward(given: _Tensors) -> list[torch.Tensor]:
        result, rows = collectives.alltoall_async(given[0], splits, name, process_set).wait()
        received.append(rows)
        return [result]

    def backward(gradients: _Tensors) -> list[torch.Tensor]:
        # The gradient of a row goes back to the rank that sent the row.
        (own,) = derivatives.names
        return [_exchanged(gradients[0], received[0], own, derivatives.differentiated(), process_set)[0]]

    (result,) = _apply(forward, backward, [tensor])
    return result, received[0]


def _reducescatter(
    tensors: _Tensors,
    names: _Names,
    compression: Compressing,
    op: ReduceOp,
    process_set: ProcessSet,
    prescale: float,
    postscale: float,
) -> list[torch.Tensor]:
    for tensor, name in zip(tensors, names, strict=True):
        check_is_tensor(tensor, "reducescatter", name)
    codec_of(compression)
    derivatives = _derivatives("reducescatter", names, process_set)

    def forward(given: _Tensors) -> list[torch.Tensor]:
        def start(part: int) -> Operation[torch.Tensor]:
            return collectives.reducescatter_async(given[part], names[part], op, process_set, prescale, postscale)

        results: list[torch.Tensor] = in_parts("reducescatter", start, names, process_set).wait()
        return results

    def backward(gradients: _Tensors) -> list[torch.Tensor]:
        # Each rank has the gradient of its rows and sends it to all ranks, times their number unless `op` is Average.
        factor = prescale * postscale * (process_set.size() if op == Sum else 1)
        scaled = [gradient * factor for gradient in gradients]
        return _allgathered(scaled, derivatives.names, derivatives.differentiated(), process_set)

    # The engine's reducescatter has no codecs: the compressor runs in Python.
    sent, decompressed = compressed(compressor_of(compression, summed=False), tensors)
    return decompressed(_apply(forward, backward, sent))


@tells_refusals("reducescatter")
def reducescatter(
    tensor: torch.Tensor,
    name: str | None = None,
    compression: Compressing = Compression.none,
    op: ReduceOp = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> torch.Tensor:
    """This rank's rows of the combination of all ranks' `tensor`. See `reducescatter_async()`."""
    (result,) = _reducescatter([tensor], [name], compression, op, process_set, prescale_factor, postscale_factor)
    return result


@tells_refusals("reducescatter")
def grouped_reducescatter(
    tensors: _Tensors,
    name: str | None = None,
    compression: Compressing = Compression.none,
    op: ReduceOp = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[torch.Tensor]:
    """`reducescatter()` of several tensors."""
    names = _part_names(tensors, name)
    return _reducescatter(tensors, names, compression, op, process_set, prescale_factor, postscale_factor)
