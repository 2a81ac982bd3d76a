# SPDX-License-Identifier: Apache-2.0
"""Collective operations on single arrays, with Horovod's names and meaning.

They return at once, with the array that receives the result: MXNet lets nothing use it before it is there. What fails
is raised by whatever waits for the array.
"""

from __future__ import annotations

from typing import Any

import mxnet as mx

from hipress import runtime
from hipress._library import load_core
from hipress.errors import InvalidArgument
from hipress.mxnet import operators
from hipress.reduce_ops import ReduceOp, chosen


def _start(kind: str, tensor: mx.nd.NDArray, output: mx.nd.NDArray, name: str | None, **options: Any) -> mx.nd.NDArray:
    process = runtime.current()
    # Unnamed operations are matched by the order in which each rank calls them, as in Horovod.
    full_name = f"{kind}.{name}" if name else process.numbered(f"{kind}.unnamed")
    operators.check_array(tensor, name or full_name)
    described = operators.describe(full_name, tensor.shape, tensor.dtype)
    spec = load_core().TensorSpec(
        full_name,
        collective=kind,
        dtype=described.dtype,
        count=described.count,
        shape=described.shape,
        transient=True,
        **options,
    )
    (declared,) = process.engine.declare([spec])
    operators.synchronize([tensor], [output], [declared])
    return output


def _allreduce(
    tensor: mx.nd.NDArray,
    output: mx.nd.NDArray,
    average: bool | None,
    name: str | None,
    op: ReduceOp | None,
    codec: str,
    **options: Any,
) -> mx.nd.NDArray:
    if name is None and codec != "none" and load_core().create_codec(codec).states:
        raise InvalidArgument(
            f"codec {codec} keeps for each tensor what it dropped, to send it later: give the tensor a name"
        )
    return _start("allreduce", tensor, output, name, op=chosen(op, average).name, codec=codec, **options)


def allreduce(
    tensor: mx.nd.NDArray,
    average: bool | None = None,
    name: str | None = None,
    priority: int = 0,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    *,
    op: ReduceOp | None = None,
    codec: str = "none",
    topology: str = "ps",
    partitions: int = 0,
) -> mx.nd.NDArray:
    """The combination of all ranks' `tensor`, as a new array.

    Every rank calls it with the same name, shape, dtype and options; unnamed calls are matched by their order. Higher
    `priority` goes first. `codec` is what travels, e.g. "fp16" or "onebit"; biased codecs need a name, under which they
    remember what they dropped.

    Raises InvalidArgument, Unsupported, Mismatch, NotInitialized; whatever waits for the result raises PeerLost,
    Timeout, CorruptPayload.
    """
    return _allreduce(
        tensor,
        mx.nd.empty(tensor.shape, ctx=tensor.context, dtype=tensor.dtype),
        average,
        name,
        op,
        codec,
        priority=priority,
        prescale=prescale_factor,
        postscale=postscale_factor,
        topology=topology,
        partitions=partitions,
    )


def allreduce_(
    tensor: mx.nd.NDArray,
    average: bool | None = None,
    name: str | None = None,
    priority: int = 0,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    *,
    op: ReduceOp | None = None,
    codec: str = "none",
    topology: str = "ps",
    partitions: int = 0,
) -> mx.nd.NDArray:
    """`allreduce()` in place."""
    return _allreduce(
        tensor,
        tensor,
        average,
        name,
        op,
        codec,
        priority=priority,
        prescale=prescale_factor,
        postscale=postscale_factor,
        topology=topology,
        partitions=partitions,
    )


def broadcast(tensor: mx.nd.NDArray, root_rank: int, name: str | None = None, priority: int = 0) -> mx.nd.NDArray:
    """Rank `root_rank`'s values, on every rank, as a new array."""
    return broadcast_(tensor.copy(), root_rank, name, priority)


def broadcast_(tensor: mx.nd.NDArray, root_rank: int, name: str | None = None, priority: int = 0) -> mx.nd.NDArray:
    """`broadcast()` in place. Waits until `tensor` may be used."""
    operators.order_values(tensor)
    return _start("broadcast", tensor, tensor, name, root=root_rank, priority=priority)
