# SPDX-License-Identifier: Apache-2.0
"""Collective operations with Horovod's names and meaning: eager, in tf.function and in graphs.

Every rank of `process_set`, all ranks by default, calls them with the same names, element types and options. Ranks
match calls without a name by their order: the order of eager calls in one thread of each rank, or the order in the
graph of a tf.function. All raise
InvalidArgument, Unsupported, Mismatch, DuplicateName, PeerLost, Timeout, NotInitialized; these classes are errors of
TensorFlow, too (failures.py). A graph raises TensorFlow's error alone, see own_error().
`device_dense` is the device of an all-reduce or a reducescatter. Without it eager code uses the GPU that holds all
tensors, or the CPU, and TensorFlow places the operators of a graph; so it is with broadcasts. Other collectives run on
the CPU.
`device_sparse` and `ignore_name_scope` are Horovod's and change nothing: names do not depend on name scopes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from hipress.adapter import collectives, reduce_ops
from hipress.adapter.complex_values import check_combines
from hipress.adapter.compression import Compressing, codec_of, compressed, compressor_of
from hipress.adapter.operation_names import operation_name
from hipress.adapter.process_sets import ProcessSet, check, global_process_set
from hipress.adapter.reduce_ops import Average, ReduceOp, Sum
from hipress.errors import InvalidArgument, Unsupported
from hipress.options.declaration import filled
from hipress.options.signatures import in_order, takes
from hipress.tensorflow import differentiable, graph_names, operators
from hipress.tensorflow.collective_options import TensorflowAllreduceOptions
from hipress.tensorflow.compression import Compression
from hipress.tensorflow.places import asked_device
from hipress.tensorflow.traced import as_written

if TYPE_CHECKING:
    from typing_extensions import Unpack


def _names(kind: str, name: str | None, count: int | None, process_set: ProcessSet) -> list[str]:
    """The names of a group of `count` tensors; None: of a single tensor. Raises the errors of process_sets.check()."""
    check(process_set)
    if name or tf.executing_eagerly():
        full_name = operation_name(kind, name, process_set, foreign_threads=False)
    else:
        full_name = process_set.named(graph_names.unnamed())
    return [full_name] if count is None else [f"{full_name}.{index}" for index in range(count)]


def _tensors(values: Sequence[Any], names: Sequence[str], dtypes: frozenset[tf.DType] = operators.MOVED) -> list[Any]:
    tensors = [tf.convert_to_tensor(value) for value in values]
    for tensor, name in zip(tensors, names, strict=True):
        operators.check_dtype(tensor.dtype, name, dtypes)
    return tensors


def _rows(values: Sequence[Any], names: Sequence[str], dtypes: frozenset[tf.DType] = operators.MOVED) -> list[Any]:
    """Converts as _tensors(), for collectives that exchange rows. Raises InvalidArgument for a scalar."""
    tensors = _tensors(values, names, dtypes)
    for tensor, name in zip(tensors, names, strict=True):
        if tensor.shape.rank == 0:  # an unknown rank: the operator raises the error
            raise InvalidArgument(f"tensor '{name}' is a scalar; ranks exchange rows: reshape it to [1]")
    return tensors


def _check_combines(tensors: Sequence[Any], names: Sequence[str], op: ReduceOp) -> None:
    for tensor, name in zip(tensors, names, strict=True):
        check_combines(name, tensor.dtype.name, op)


def _checked_codec(
    compression: Compressing, codec: str, tensors: Sequence[Any], name: str | None, *, summed: bool
) -> str:
    floating = all(tensor.dtype.is_floating or tensor.dtype.is_complex for tensor in tensors)
    chosen = codec_of(compression, codec, floating=floating, summed=summed)
    collectives.check_codec_needs_name(name, chosen)
    return chosen


@in_order(
    "tensor average device_dense device_sparse compression op prescale_factor postscale_factor name process_set "
    "ignore_name_scope"
)
@as_written
@takes(TensorflowAllreduceOptions)
def allreduce(tensor: Any, **options: Unpack[TensorflowAllreduceOptions]) -> tf.Tensor | tf.IndexedSlices:
    """The combination of all ranks' `tensor`. For IndexedSlices: the slices of all ranks (Average or Sum).

    `codec` compresses the values, e.g. "fp16" or "onebit"; biased codecs need a name, under which they keep the
    residual. It has the unit of the values: a loss scale that changes must not be in them. Differentiable.
    """
    return _allreduce([tensor], options, single=True)[0]


@in_order(
    "tensors average device_dense device_sparse compression op prescale_factor postscale_factor process_set "
    "ignore_name_scope name"
)
@as_written
@takes(TensorflowAllreduceOptions)
def grouped_allreduce(
    tensors: Sequence[Any], **options: Unpack[TensorflowAllreduceOptions]
) -> list[tf.Tensor | tf.IndexedSlices]:
    """`allreduce()` of several tensors, as one operation."""
    return _allreduce(tensors, options, single=False)


def _allreduce(tensors: Sequence[Any], options: TensorflowAllreduceOptions, *, single: bool) -> list[Any]:
    given = filled(TensorflowAllreduceOptions, options)
    compression, codec, name, process_set = (
        given[option] for option in ("compression", "codec", "name", "process_set")
    )
    factors = given["prescale_factor"], given["postscale_factor"]
    op = reduce_ops.chosen(given["op"], given["average"])
    results = list(tensors)
    dense = [index for index, tensor in enumerate(tensors) if not isinstance(tensor, tf.IndexedSlices)]
    names = _names("allreduce", name, None if single else len(tensors), process_set)
    for index in set(range(len(results))) - set(dense):
        results[index] = _gathered(results[index], names[index], op, factors, process_set)
    if dense:
        own_names = [names[index] for index in dense]
        values = _tensors([tensors[index] for index in dense], own_names, operators.COMBINED)
        _check_combines(values, own_names, op)
        summed = op in (Average, Sum)
        codec_of(compression, codec)
        sent, decompressed = compressed(compressor_of(compression, summed=summed), values)
        combined = differentiable.allreduce(
            own_names,
            _tensors(sent, own_names),
            factors,
            process_set,
            reduction=op.name,
            codec=_checked_codec(compression, codec, sent, name, summed=summed),
            topology=given["topology"],
            partitions=given["partitions"],
            device=asked_device(given["device_dense"]),
        )
        for index, result in zip(dense, decompressed(combined), strict=True):
            results[index] = result
    return results


def _gathered(
    slices: tf.IndexedSlices, name: str, op: ReduceOp, factors: tuple[float, float], process_set: ProcessSet
) -> tf.IndexedSlices:
    if op not in (Average, Sum):
        raise Unsupported(f"'{name}' is IndexedSlices, which go with Average and Sum; op is {op!r}")
    if op == Average and slices.values.dtype == tf.bool:
        raise Unsupported(f"'{name}' is IndexedSlices of bool, which have no average; op=Sum gathers them")
    names = [f"{name}.values", f"{name}.indices"]
    values, indices = differentiable.allgather(names, _tensors([slices.values, slices.indices], names), process_set)
    factor = factors[0] * factors[1] / (process_set.size() if op == Average else 1)
    if op == Average or factor != 1:
        if not values.dtype.is_floating:
            values = values / tf.ones([], values.dtype)  # floats, as Horovod's averages of whole numbers
        values = values * factor
    return tf.IndexedSlices(values, indices, slices.dense_shape)


@as_written
def allgather(
    tensor: Any,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> tf.Tensor:
    """The rows of all ranks, in rank order. Ranks may have different numbers of rows. Differentiable."""
    names = _names("allgather", name, None, process_set)
    return differentiable.allgather(names, _rows([tensor], names), process_set)[0]


@as_written
def grouped_allgather(
    tensors: Sequence[Any],
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> list[tf.Tensor]:
    """`allgather()` of several tensors, as one operation."""
    names = _names("allgather", name, len(tensors), process_set)
    return differentiable.allgather(names, _rows(tensors, names), process_set) if names else []


@as_written
def broadcast(
    tensor: Any,
    root_rank: int,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> tf.Tensor:
    """Rank `root_rank`'s values, on every rank. Differentiable."""
    names = _names("broadcast", name, None, process_set)
    return differentiable.broadcast(names, _tensors([tensor], names), root_rank, process_set)[0]


@as_written
def broadcast_(
    variables: Sequence[Any], root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[tf.Variable]:
    """Assigns rank `root_rank`'s values to these tf.Variables, and returns them."""
    names = graph_names.own_names(_names("broadcast", name, len(variables), process_set))
    values = operators.broadcast(names, _tensors(variables, names), root_rank, process_set)
    return [variable.assign(value) for variable, value in zip(variables, values, strict=True)]


@as_written
def alltoall(
    tensor: Any,
    splits: Any = None,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> tf.Tensor | tuple[tf.Tensor, tf.Tensor]:
    """The rows that each rank has sent to this rank, in rank order; with `splits`, also the number of rows of each
    rank.

    `splits`: the number of rows for each rank; without it, every rank gets equally many. Differentiable.
    """
    names = _names("alltoall", name, None, process_set)
    given = tf.constant([], tf.int64) if splits is None else _splits(splits, names[0])
    received, rows = differentiable.alltoall(names[0], _rows([tensor], names)[0], given, process_set)
    return received if splits is None else (received, tf.cast(rows, tf.int32))


def _splits(splits: Any, name: str) -> Any:
    given = tf.convert_to_tensor(splits)
    if not given.dtype.is_integer or given.shape.rank not in (None, 1):
        raise InvalidArgument(
            f"alltoall of '{name}': splits must be integers, one for each rank, not {given.dtype.name} of shape "
            f"{given.shape}"
        )
    return tf.cast(given, tf.int64)


@as_written
def reducescatter(
    tensor: Any,
    device_dense: str = "",
    compression: Compressing = Compression.none,
    op: ReduceOp = Average,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> tf.Tensor:
    """This rank's rows of the combination of all ranks' `tensor`. If rows do not divide evenly, lower ranks get one
    more. Differentiable.
    """
    return _reducescatter(
        [tensor],
        _names("reducescatter", name, None, process_set),
        compression,
        op,
        process_set,
        prescale_factor,
        postscale_factor,
        device_dense,
    )[0]


@as_written
def grouped_reducescatter(
    tensors: Sequence[Any],
    device_dense: str = "",
    compression: Compressing = Compression.none,
    op: ReduceOp = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    *,
    name: str | None = None,
) -> list[tf.Tensor]:
    """`reducescatter()` of several tensors, as one operation."""
    names = _names("reducescatter", name, len(tensors), process_set)
    if not names:
        return []
    return _reducescatter(tensors, names, compression, op, process_set, prescale_factor, postscale_factor, device_dense)


def _reducescatter(
    tensors: Sequence[Any],
    names: Sequence[str],
    compression: Compressing,
    op: ReduceOp,
    process_set: ProcessSet,
    prescale_factor: float,
    postscale_factor: float,
    device: str,
) -> list[Any]:
    codec_of(compression)
    # The engine's reducescatter has no codecs: the compressor runs in Python.
    given = _rows(tensors, names, operators.COMBINED)
    _check_combines(given, names, reduce_ops.chosen(op))
    sent, decompressed = compressed(compressor_of(compression, summed=False), given)
    results = differentiable.reducescatter(
        names,
        _tensors(sent, names),
        (prescale_factor, postscale_factor),
        process_set,
        reduction=reduce_ops.chosen(op).name,
        device=asked_device(device),
    )
    return decompressed(results)


@as_written
def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Returns when every rank of the set has called it."""
    collectives.barrier(process_set).wait()
