# SPDX-License-Identifier: Apache-2.0
"""Collective operations on single arrays, with Horovod's names and meaning.

They return at once, with the array that receives the result. MXNet lets no operation use the array before it has the
result. The call that waits for the array raises the error of the operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import mxnet as mx
import numpy as np

from hipress import runtime
from hipress._library import load_core
from hipress.adapter.collective_options import of_part
from hipress.adapter.collectives import check_codec_needs_name
from hipress.adapter.compression import codec_of, compressed, compressor_of
from hipress.adapter.operation_names import operation_name
from hipress.adapter.operations import REFUSALS, start_parts, tell_refusal, tells_refusals
from hipress.adapter.process_sets import ProcessSet, check, global_process_set
from hipress.adapter.reduce_ops import Average, Sum, chosen
from hipress.mxnet import operators
from hipress.mxnet.options import MxnetAllreduceOptions
from hipress.options.declaration import filled
from hipress.options.signatures import in_order, takes

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: Horovod's order of the arguments of an all-reduce of one array, and of several.
_ONE = "tensor average name priority prescale_factor postscale_factor process_set op"
_SEVERAL = "tensors average name priority prescale_factor postscale_factor process_set op"


def _start(
    kind: str,
    tensor: mx.nd.NDArray,
    output: mx.nd.NDArray,
    name: str | None,
    process_set: ProcessSet,
    **options: Any,
) -> mx.nd.NDArray:
    process = runtime.current()
    full_name = operation_name(kind, name, check(process_set))
    try:
        operators.check_array(tensor, name or full_name)
        described = operators.describe(full_name, tensor.shape, tensor.dtype)
        spec = load_core().TensorSpec(
            full_name,
            collective=kind,
            dtype=described.dtype,
            count=described.count,
            shape=described.shape,
            transient=True,
            among=process_set.among,
            **options,
        )
        declared = process.engine.announce(spec)
    except REFUSALS as error:
        tell_refusal(full_name, process_set, error)
        raise
    if described.count == 0:  # MXNet would take its shape for an unknown shape
        nothing = np.empty(0, described.dtype)
        process.engine.wait(process.engine.submit(declared, nothing, nothing))
    else:
        operators.synchronize([tensor], [output], [declared])
    return output


def _allreduce(tensor: mx.nd.NDArray, output: mx.nd.NDArray | None, options: MxnetAllreduceOptions) -> mx.nd.NDArray:
    """All-reduces into `output`, or into a new array if `output` is None."""
    given = filled(MxnetAllreduceOptions, options)
    compression, name = given["compression"], given["name"]
    op = chosen(given["op"], given["average"])
    summed = op in (Average, Sum)
    floating = np.issubdtype(tensor.dtype, np.floating)
    codec = codec_of(compression, given["codec"], floating=floating, summed=summed)
    check_codec_needs_name(name, codec)
    compressor = compressor_of(compression, summed=summed)
    (sent,), decompressed = compressed(compressor, [tensor])
    into = output
    if into is None or compressor is not None:
        into = operators.of_kind(mx.nd.empty(sent.shape, ctx=sent.context, dtype=sent.dtype), sent)
    started = _start(
        "allreduce",
        sent,
        into,
        name,
        given["process_set"],
        op=op.name,
        codec=codec,
        priority=given["priority"],
        prescale=given["prescale_factor"],
        postscale=given["postscale_factor"],
        topology=given["topology"],
        partitions=given["partitions"],
    )
    (result,) = decompressed([started])
    if output is None or output is result:
        return result
    output[:] = result
    return output


@in_order(_ONE)
@takes(MxnetAllreduceOptions)
@tells_refusals("allreduce")
def allreduce(tensor: mx.nd.NDArray, **options: Unpack[MxnetAllreduceOptions]) -> mx.nd.NDArray:
    """The combination of all ranks' `tensor`, as a new array.

    Every rank of `process_set` calls it with the same name, shape, dtype and options; ranks match calls without a name
    by their order. An operation with a higher `priority` goes first. `codec` compresses the values, e.g. "fp16" or
    "onebit"; biased codecs need a name, under which they keep the residual. It has the unit of the values: a loss scale
    that changes must not be in them.

    Raises InvalidArgument, Unsupported, Mismatch, NotInitialized; the call that waits for the result raises PeerLost,
    Timeout, CorruptPayload.
    """
    return _allreduce(tensor, None, options)


@in_order(_ONE)
@takes(MxnetAllreduceOptions)
@tells_refusals("allreduce")
def allreduce_(tensor: mx.nd.NDArray, **options: Unpack[MxnetAllreduceOptions]) -> mx.nd.NDArray:
    """`allreduce()` in place."""
    return _allreduce(tensor, tensor, options)


@in_order(_SEVERAL)
@takes(MxnetAllreduceOptions)
@tells_refusals("allreduce")
def grouped_allreduce(
    tensors: Sequence[mx.nd.NDArray], **options: Unpack[MxnetAllreduceOptions]
) -> list[mx.nd.NDArray]:
    """Calls allreduce() for each array, with the same options."""
    return _in_parts(tensors, options, allreduce)


@in_order(_SEVERAL)
@takes(MxnetAllreduceOptions)
@tells_refusals("allreduce")
def grouped_allreduce_(
    tensors: Sequence[mx.nd.NDArray], **options: Unpack[MxnetAllreduceOptions]
) -> list[mx.nd.NDArray]:
    """Calls allreduce_() for each array, with the same options."""
    return _in_parts(tensors, options, allreduce_)


def _in_parts(tensors: Sequence[mx.nd.NDArray], options: MxnetAllreduceOptions, start: Any) -> list[mx.nd.NDArray]:
    parts = [of_part(options, part) for part in range(len(tensors))]
    return start_parts(
        "allreduce",
        lambda part: start(tensors[part], **parts[part]),
        [each["name"] for each in parts],
        options.get("process_set", global_process_set),
    )


@tells_refusals("broadcast")
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


@tells_refusals("broadcast")
def broadcast_(
    tensor: mx.nd.NDArray,
    root_rank: int,
    name: str | None = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
) -> mx.nd.NDArray:
    """`broadcast()` in place. It first waits until MXNet has computed `tensor`."""
    operators.order_values(tensor)
    return _start("broadcast", tensor, tensor, name, process_set, root=root_rank, priority=priority)


def synchronize(tensor: mx.nd.NDArray) -> mx.nd.NDArray:
    """Waits for an array that an operation writes, and returns it. Raises the operation's error."""
    tensor.wait_to_read()
    return tensor
