# SPDX-License-Identifier: Apache-2.0
"""Collectives whose results have other shapes than their inputs. MXNet must know the shape of an array when it makes
it, so these functions wait for their input values and for the end of the operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mxnet as mx

from hipress.adapter import collectives
from hipress.adapter.operations import Operation, part_name, start_parts, tells_refusals
from hipress.adapter.process_sets import ProcessSet, check, global_process_set
from hipress.adapter.reduce_ops import Average, ReduceOp, chosen
from hipress.mxnet import operators


def _values(tensor: mx.nd.NDArray, name: str | None, process_set: ProcessSet) -> Any:
    check(process_set)
    operators.check_array(tensor, name or "a tensor")
    operators.describe(name or "a tensor", tensor.shape, tensor.dtype)
    return tensor.asnumpy()


def _array(values: Any, like: mx.nd.NDArray) -> mx.nd.NDArray:
    return operators.of_kind(mx.nd.array(values, ctx=like.context, dtype=like.dtype), like)


@tells_refusals("allgather")
def allgather(
    tensor: mx.nd.NDArray, name: str | None = None, priority: int = 0, process_set: ProcessSet = global_process_set
) -> mx.nd.NDArray:
    """The rows of all ranks' `tensor`, in rank order. Ranks may have different numbers of rows."""
    gathering = collectives.allgather(_values(tensor, name, process_set), name=name, process_set=process_set)
    return _array(gathering.wait(), tensor)


@tells_refusals("allgather")
def grouped_allgather(
    tensors: Sequence[mx.nd.NDArray],
    name: str | None = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
) -> list[mx.nd.NDArray]:
    """allgather() of each array; all run at the same time."""
    names = [part_name(name, part) for part in range(len(tensors))]

    def start(part: int) -> Operation[collectives.Buffer]:
        values = _values(tensors[part], names[part], process_set)
        return collectives.allgather(values, name=names[part], process_set=process_set)

    return _results(start_parts("allgather", start, names, process_set), tensors)


@tells_refusals("alltoall")
def alltoall(
    tensor: mx.nd.NDArray,
    splits: Any = None,
    name: str | None = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
) -> mx.nd.NDArray | tuple[mx.nd.NDArray, mx.nd.NDArray]:
    """Sends the first `splits[0]` rows to the first rank of the set, the next `splits[1]` rows to the second one, and
    so on; without `splits` every rank gets equally many.

    Returns the rows from all ranks, in rank order; with `splits` also an array of the number of rows of each rank.
    """
    numbers = splits.asnumpy() if isinstance(splits, mx.nd.NDArray) else splits
    values = _values(tensor, name, process_set)
    rows, received = collectives.alltoall(values, numbers, name=name, process_set=process_set).wait()
    result = _array(rows, tensor)
    if splits is None:
        return result
    return result, operators.of_kind(mx.nd.array(received, dtype="int32"), tensor)


@tells_refusals("reducescatter")
def reducescatter(
    tensor: mx.nd.NDArray,
    op: ReduceOp = Average,
    name: str | None = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> mx.nd.NDArray:
    """This rank's rows of the combination of all ranks' `tensor`. Lower ranks may get one row more."""
    started = _reducescatter(tensor, op, name, process_set, prescale_factor, postscale_factor)
    return _array(started.wait(), tensor)


@tells_refusals("reducescatter")
def grouped_reducescatter(
    tensors: Sequence[mx.nd.NDArray],
    op: ReduceOp = Average,
    name: str | None = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[mx.nd.NDArray]:
    """reducescatter() of each array; all run at the same time."""
    names = [part_name(name, part) for part in range(len(tensors))]

    def start(part: int) -> Operation[collectives.Buffer]:
        return _reducescatter(tensors[part], op, names[part], process_set, prescale_factor, postscale_factor)

    return _results(start_parts("reducescatter", start, names, process_set), tensors)


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Returns when every rank of the set has called it. It does not wait for values that MXNet still computes."""
    collectives.barrier(process_set).wait()


def _reducescatter(
    tensor: mx.nd.NDArray,
    op: ReduceOp,
    name: str | None,
    process_set: ProcessSet,
    prescale_factor: float,
    postscale_factor: float,
) -> Operation[collectives.Buffer]:
    return collectives.reducescatter(
        _values(tensor, name, process_set),
        name=name,
        op=chosen(op),
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
        process_set=process_set,
    )


def _results(started: Sequence[Operation[collectives.Buffer]], tensors: Sequence[mx.nd.NDArray]) -> list[mx.nd.NDArray]:
    return [_array(each.wait(), tensor) for each, tensor in zip(started, tensors, strict=True)]
