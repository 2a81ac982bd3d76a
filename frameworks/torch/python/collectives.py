# SPDX-License-Identifier: Apache-2.0
"""Collective operations on single tensors, with Horovod's names and meaning."""

from __future__ import annotations

from typing import Any

import torch

from hipress import reduce_ops, runtime
from hipress._library import load_core
from hipress.errors import DuplicateName, InvalidArgument
from hipress.reduce_ops import ReduceOp
from hipress.torch import operators


def _start(kind: str, tensor: torch.Tensor, output: torch.Tensor, name: str | None, options: dict[str, Any]) -> int:
    process = runtime.current()
    # Unnamed operations are matched by the order in which each rank calls them, as in Horovod.
    full_name = f"{kind}.{name}" if name else process.numbered(f"{kind}.unnamed")
    if any(full_name == other for other, _ in process.in_flight.values()):
        raise DuplicateName(f"'{name}' is in flight already: synchronize() it first, or give this one another name")
    operators.check_tensor(tensor, name or full_name)
    operators.check_tensor(output, name or full_name)
    spec = load_core().TensorSpec(
        full_name,
        collective=kind,
        dtype=operators.DTYPE_NAMES[tensor.dtype],
        count=tensor.numel(),
        shape=operators.shape_text(tensor),
        transient=True,
        device=operators.device_of(tensor, name or full_name),
        **options,
    )
    (declared,) = process.engine.declare([spec])
    if output is tensor:
        handle = operators.submit_in_place(tensor, declared)
    else:
        handle = operators.submit(tensor, output, declared)
    process.in_flight[handle] = (full_name, output)
    return handle


def _allreduce(
    tensor: torch.Tensor,
    output: torch.Tensor,
    average: bool | None,
    name: str | None,
    op: ReduceOp | None,
    prescale_factor: float,
    postscale_factor: float,
    codec: str,
    topology: str,
    partitions: int,
) -> int:
    if name is None and codec != "none" and load_core().create_codec(codec).states:
        raise InvalidArgument(
            f"codec {codec} keeps for each tensor what it dropped, to send it later: give the tensor a name"
        )
    options = {
        "op": reduce_ops.chosen(op, average).name,
        "prescale": prescale_factor,
        "postscale": postscale_factor,
        "codec": codec,
        "topology": topology,
        "partitions": partitions,
    }
    return _start("allreduce", tensor, output, name, options)


def allreduce_async(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    *,
    codec: str = "none",
    topology: str = "ps",
    partitions: int = 0,
) -> int:
    """Starts combining `tensor` over all ranks into a new tensor; returns a handle for `synchronize()`.

    Every rank calls it with the same name, shape, dtype and options; unnamed calls are matched by their order.
    `tensor` must not be changed until `synchronize()`. `codec` is what travels, e.g. "fp16" or "onebit"; biased codecs
    need a name, under which they remember what they dropped.

    Raises InvalidArgument, Unsupported, Mismatch, DuplicateName, PeerLost, Timeout, NotInitialized.
    """
    output = torch.empty_like(tensor)
    return _allreduce(tensor, output, average, name, op, prescale_factor, postscale_factor, codec, topology, partitions)


def allreduce_async_(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    *,
    codec: str = "none",
    topology: str = "ps",
    partitions: int = 0,
) -> int:
    """`allreduce_async()` in place."""
    return _allreduce(tensor, tensor, average, name, op, prescale_factor, postscale_factor, codec, topology, partitions)


class _AllreduceFunction(torch.autograd.Function):
    """The gradient of an all-reduce is the all-reduce of the gradient."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, arguments: dict[str, Any]) -> torch.Tensor:
        ctx.arguments = arguments
        return synchronize(allreduce_async(tensor, **arguments))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        arguments = dict(ctx.arguments)
        if arguments.get("name"):
            arguments["name"] += ".gradient"
        return synchronize(allreduce_async(gradients[0].contiguous(), **arguments)), None


def allreduce(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    *,
    codec: str = "none",
    topology: str = "ps",
    partitions: int = 0,
) -> torch.Tensor:
    """The combination of all ranks' `tensor`, as a new tensor; differentiable. See `allreduce_async()`."""
    arguments = {
        "average": average,
        "name": name,
        "op": op,
        "prescale_factor": prescale_factor,
        "postscale_factor": postscale_factor,
        "codec": codec,
        "topology": topology,
        "partitions": partitions,
    }
    result: torch.Tensor = _AllreduceFunction.apply(tensor, arguments)  # type: ignore[no-untyped-call]
    return result


def allreduce_(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    *,
    codec: str = "none",
    topology: str = "ps",
    partitions: int = 0,
) -> torch.Tensor:
    """`allreduce()` in place."""
    return synchronize(
        allreduce_async_(
            tensor,
            average,
            name,
            op,
            prescale_factor,
            postscale_factor,
            codec=codec,
            topology=topology,
            partitions=partitions,
        )
    )


def broadcast_async(tensor: torch.Tensor, root_rank: int, name: str | None = None) -> int:
    """Starts sending rank `root_rank`'s values to all ranks, into a new tensor; returns a handle."""
    return _start("broadcast", tensor, torch.empty_like(tensor).copy_(tensor), name, {"root": root_rank})


def broadcast_async_(tensor: torch.Tensor, root_rank: int, name: str | None = None) -> int:
    """`broadcast_async()` in place."""
    return _start("broadcast", tensor, tensor, name, {"root": root_rank})


def broadcast(tensor: torch.Tensor, root_rank: int, name: str | None = None) -> torch.Tensor:
    """Rank `root_rank`'s values, on every rank, as a new tensor."""
    return synchronize(broadcast_async(tensor, root_rank, name))


def broadcast_(tensor: torch.Tensor, root_rank: int, name: str | None = None) -> torch.Tensor:
    """`broadcast()` in place."""
    return synchronize(broadcast_async_(tensor, root_rank, name))


def poll(handle: int) -> bool:
    """Whether the operation has ended, so that `synchronize(handle)` returns (or raises) at once."""
    ended: bool = runtime.current().engine.poll(handle)
    return ended


def synchronize(handle: int) -> torch.Tensor:
    """Waits for an operation and returns its result.

    Raises what made it fail: PeerLost or Timeout (naming the rank and the tensor), Mismatch, CorruptPayload.
    """
    process = runtime.current()
    if handle not in process.in_flight:
        raise InvalidArgument(f"{handle} is not the handle of an operation in flight; was it synchronised already?")
    try:
        process.engine.wait(handle)
    finally:
        _, output = process.in_flight.pop(handle)
    result: torch.Tensor = output
    return result
