# SPDX-License-Identifier: Apache-2.0
"""Collective operations on single arrays, with Horovod's names and meaning.

They return at once, with the array that receives the result: MXNet lets nothing use it before it is there. What fails
is raised by whatever waits for the array.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mxnet as mx
import numpy as np

from hipress import process_sets, runtime
from hipress._library import load_core
from hipress.collectives import check_codec_needs_name
from hipress.compression import Compression, codec_of
from hipress.mxnet import operators
from hipress.process_sets import ProcessSet, global_process_set
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
    if described.count == 0:  # MXNet takes its shape for one that it does not know yet
        nothing = np.empty(0, described.dtype)
        process.engine.wait(process.engine.submit(declared, nothing, nothing))
    else:
        operators.synchronize([tensor], [output], [declared])
    return output


def _allreduce(
    tensor: mx.nd.NDArray,
    output: mx.nd.NDArray,
    average: bool | None,
    name: str | None,
    op: ReduceOp | None,
    compression: str,
    codec: str,
    process_set: ProcessSet,
    **options: Any,
) -> mx.nd.NDArray:
    process_sets.check(process_set)
    codec = codec_of(compression, codec, floating=np.issubdtype(tensor.dtype, np.floating))
    check_codec_needs_name(name, codec)
    return _start("allreduce", tensor, output, name, op=chosen(op, average).name, codec=codec, **options)


def allreduce(
    tensor: mx.nd.NDArray,
    average: bool | None = None,
    name: str | None = None,
    priority: int = 0,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    op: ReduceOp | None = None,
    *,
    compression: str = Compression.none,
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
        compression,
        codec,
        process_set,
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
    process_set: ProcessSet = global_process_set,
    op: ReduceOp | None = None,
    *,
    compression: str = Compression.none,
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
        compression,
        codec,
        process_set,
        priority=priority,
        prescale=prescale_factor,
        postscale=postscale_factor,
        topology=topology,
        partitions=partitions,
    )


def grouped_allreduce(
    tensors: Sequence[mx.nd.NDArray],
    average: bool | None = None,
    name: str | None = None,
    *arguments: Any,
    **options: Any,
) -> list[mx.nd.NDArray]:
    """allreduce() of each, with its arguments."""
    names = [part_name(name, part) for part in range(len(tensors))]
    return [allreduce(tensor, average, own, *arguments, **options) for tensor, own in zip(tensors, names, strict=True)]


def grouped_allreduce_(
    tensors: Sequence[mx.nd.NDArray],
    average: bool | None = None,
    name: str | None = None,
    *arguments: Any,
    **options: Any,
) -> list[mx.nd.NDArray]:
    """allreduce_() of each, with its arguments."""
    names = [part_name(name, part) for part in range(len(tensors))]
    return [allreduce_(tensor, average, own, *arguments, **options) for tensor, own in zip(tensors, names, strict=True)]


def part_name(name: str | None, part: int) -> str | None:
    """Of one tensor of a group."""
    return None if name is None else f"{name}.{part}"


def broadcast(
    tensor: mx.nd.NDArray,
    root_rank: int,
    name: str | None = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
) -> mx.nd.NDArray:
    """Rank `root_rank`'s values, on every rank, as a new array."""
    own = tensor.copy() if tensor.size > 0 else tensor  # MXNet does not copy an empty array
    return broadcast_(own, root_rank, name, priority, process_set)


def broadcast_(
    tensor: mx.nd.NDArray,
    root_rank: int,
    name: str | None = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
) -> mx.nd.NDArray:
    """`broadcast()` in place. Waits until `tensor` may be used."""
    process_sets.check(process_set)
    operators.order_values(tensor)
    return _start("broadcast", tensor, tensor, name, root=root_rank, priority=priority)


def synchronize(tensor: mx.nd.NDArray) -> mx.nd.NDArray:
    """Waits for an array that an operation writes, and returns it. Raises what made the operation fail."""
    tensor.wait_to_read()
    return tensor
