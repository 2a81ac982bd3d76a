# SPDX-License-Identifier: Apache-2.0
"""Collective operations with Horovod's names and meaning; eagerly, in tf.function and in graphs.

Every rank calls them with the same names, element types and options; those without a name are matched by the order in
which each rank calls (in a tf.function: traces) them. All raise InvalidArgument, Unsupported, Mismatch, DuplicateName,
PeerLost, Timeout, NotInitialized; what fails in a graph comes as TensorFlow's error, see own_error(). Further arguments
of Horovod's that change nothing are taken as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from hipress import collectives, process_sets, reduce_ops, runtime
from hipress.compression import Compression, codec_of
from hipress.errors import InvalidArgument
from hipress.process_sets import ProcessSet, global_process_set
from hipress.reduce_ops import Average, ReduceOp, Sum
from hipress.tensorflow import differentiable, horovod_arguments, operators
from hipress.tensorflow.traced import as_written


def _names(kind: str, name: str | None, count: int | None) -> list[str]:
    """Those of a group of `count` tensors; None: of a single one."""
    full_name = f"{kind}.{name}" if name else runtime.current().numbered("unnamed")
    return [full_name] if count is None else [f"{full_name}.{index}" for index in range(count)]


def _tensors(values: Sequence[Any], names: Sequence[str]) -> list[Any]:
    tensors = [tf.convert_to_tensor(value) for value in values]
    for tensor, name in zip(tensors, names, strict=True):
        operators.check_dtype(tensor.dtype, name)
    return tensors


def _checked_codec(compression: str, codec: str, tensors: Sequence[Any], name: str | None) -> str:
    chosen = codec_of(compression, codec, floating=all(tensor.dtype.is_floating for tensor in tensors))
    collectives.check_codec_needs_name(name, chosen)
    return chosen


@as_written
def allreduce(
    tensor: Any,
    average: bool | None = None,
    *,
    name: str | None = None,
    compression: str = Compression.none,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    codec: str = "none",
    topology: str = "ps",
    partitions: int = 0,
    **horovod: Any,
) -> Any:
    """The combination of all ranks' `tensor`; of IndexedSlices all ranks' slices (Average or Sum).

    `codec` is what travels, e.g. "fp16" or "onebit"; biased codecs need a name, under which they remember what they
    dropped. Differentiable.
    """
    results = grouped_allreduce(
        [tensor],
        average,
        name=name,
        compression=compression,
        op=op,
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
        process_set=process_set,
        codec=codec,
        topology=topology,
        partitions=partitions,
        _single=True,
        **horovod,
    )
    return results[0]


@as_written
def grouped_allreduce(
    tensors: Sequence[Any],
    average: bool | None = None,
    *,
    name: str | None = None,
    compression: str = Compression.none,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    codec: str = "none",
    topology: str = "ps",
    partitions: int = 0,
    _single: bool = False,
    **horovod: Any,
) -> list[Any]:
    """`allreduce()` of several tensors, which travel together."""
    horovod_arguments.check("allreduce", horovod)
    process_sets.check(process_set)
    op = reduce_ops.chosen(op, average)
    results = list(tensors)
    dense = [index for index, tensor in enumerate(tensors) if not isinstance(tensor, tf.IndexedSlices)]
    names = _names("allreduce", name, None if _single else len(tensors))
    for index in set(range(len(results))) - set(dense):
        results[index] = _gathered(results[index], names[index], op, (prescale_factor, postscale_factor))
    if dense:
        given = _tensors([tensors[index] for index in dense], [names[index] for index in dense])
        combined = differentiable.allreduce(
            [names[index] for index in dense],
            given,
            (prescale_factor, postscale_factor),
            reduction=op.name,
            codec=_checked_codec(compression, codec, given, name),
            topology=topology,
            partitions=partitions,
        )
        for index, result in zip(dense, combined, strict=True):
            results[index] = result
    return results


def _gathered(slices: tf.IndexedSlices, name: str, op: ReduceOp, factors: tuple[float, float]) -> tf.IndexedSlices:
    if op not in (Average, Sum):
        raise InvalidArgument(f"'{name}' is IndexedSlices, which go with Average and Sum; op is {op!r}")
    factor = factors[0] * factors[1] / (runtime.size() if op == Average else 1)
    values, indices = differentiable.allgather([f"{name}.values", f"{name}.indices"], [slices.values, slices.indices])
    return tf.IndexedSlices(values * tf.cast(factor, values.dtype), indices, slices.dense_shape)


@as_written
def allgather(
    tensor: Any, name: str | None = None, process_set: ProcessSet = global_process_set, **horovod: Any
) -> Any:
    """The rows of all ranks, in the order of the ranks; they may have different numbers of them. Differentiable."""
    horovod_arguments.check("allgather", horovod)
    process_sets.check(process_set)
    names = _names("allgather", name, None)
    return differentiable.allgather(names, _tensors([tensor], names))[0]


@as_written
def grouped_allgather(
    tensors: Sequence[Any], name: str | None = None, process_set: ProcessSet = global_process_set, **horovod: Any
) -> list[Any]:
    """`allgather()` of several tensors, which travel together."""
    horovod_arguments.check("grouped_allgather", horovod)
    process_sets.check(process_set)
    names = _names("allgather", name, len(tensors))
    return differentiable.allgather(names, _tensors(tensors, names)) if names else []


@as_written
def broadcast(
    tensor: Any, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set, **horovod: Any
) -> Any:
    """Rank `root_rank`'s values, on every rank. Differentiable."""
    horovod_arguments.check("broadcast", horovod)
    process_sets.check(process_set)
    names = _names("broadcast", name, None)
    return differentiable.broadcast(names, _tensors([tensor], names), root_rank)[0]


@as_written
def broadcast_(
    variables: Sequence[Any], root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[Any]:
    """Rank `root_rank`'s values of these tf.Variables, in place; returns them."""
    process_sets.check(process_set)
    names = _names("broadcast", name, len(variables))
    values = operators.broadcast(names, _tensors(variables, names), root_rank)
    return [variable.assign(value) for variable, value in zip(variables, values, strict=True)]


@as_written
def alltoall(
    tensor: Any,
    splits: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    **horovod: Any,
) -> Any:
    """The rows that each rank has for this one, in the order of the ranks; with `splits`, also how many came from each.

    `splits`: how many rows are for each rank; without it, equally many. Differentiable.
    """
    horovod_arguments.check("alltoall", horovod)
    process_sets.check(process_set)
    names = _names("alltoall", name, None)
    given = tf.constant([], tf.int64) if splits is None else tf.cast(tf.convert_to_tensor(splits), tf.int64)
    received, rows = differentiable.alltoall(names[0], _tensors([tensor], names)[0], given)
    return received if splits is None else (received, tf.cast(rows, tf.int32))


@as_written
def reducescatter(
    tensor: Any,
    *,
    compression: str = Compression.none,
    op: ReduceOp = Average,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    **horovod: Any,
) -> Any:
    """This rank's rows of the combination of all ranks' `tensor`: as evenly divided as rows can be, lower ranks have
    one more. Differentiable.
    """
    return _reducescatter(
        [tensor],
        _names("reducescatter", name, None),
        compression,
        op,
        process_set,
        prescale_factor,
        postscale_factor,
        horovod,
    )[0]


@as_written
def grouped_reducescatter(
    tensors: Sequence[Any],
    *,
    compression: str = Compression.none,
    op: ReduceOp = Average,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    **horovod: Any,
) -> list[Any]:
    """`reducescatter()` of several tensors, which travel together."""
    names = _names("reducescatter", name, len(tensors))
    if not names:
        return []
    return _reducescatter(tensors, names, compression, op, process_set, prescale_factor, postscale_factor, horovod)


def _reducescatter(
    tensors: Sequence[Any],
    names: Sequence[str],
    compression: str,
    op: ReduceOp,
    process_set: ProcessSet,
    prescale_factor: float,
    postscale_factor: float,
    horovod: dict[str, Any],
) -> list[Any]:
    horovod_arguments.check("reducescatter", horovod)
    process_sets.check(process_set)
    given = _tensors(tensors, names)
    sent = given
    if codec_of(compression, "none") == Compression.fp16:  # a reducescatter has no codecs: the values are cast
        sent = [tf.cast(tensor, tf.float16) if tensor.dtype.is_floating else tensor for tensor in given]
    results = differentiable.reducescatter(
        names, sent, (prescale_factor, postscale_factor), reduction=reduce_ops.chosen(op).name
    )
    return [tf.cast(result, tensor.dtype) for result, tensor in zip(results, given, strict=True)]


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Returns when every rank has called it."""
    process_sets.check(process_set)
    collectives.barrier().wait()
