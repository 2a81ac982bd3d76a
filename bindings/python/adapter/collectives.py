# SPDX-License-Identifier: Apache-2.0
"""Collectives on buffers. The frameworks' collectives call them.

A buffer is a C-contiguous NumPy array over a framework's own memory. NumPy has no bfloat16: a bfloat16 buffer is an
int16 array with the same bytes, and `dtype` names the element type. Each function starts an operation and returns it at
once; `wait()` of the operation returns the result, an array like the input.

    operation = collectives.allgather(array, name="x")
    result = operation.wait()

Every rank of `process_set` starts an operation with the same name, element type and options; ranks match operations
without a name by the order of the calls in the set. A buffer must not change before `wait()` has returned. All raise
InvalidArgument, Unsupported, Mismatch, DuplicateName, PeerLost, Timeout, NotInitialized; `wait()` raises the errors
that occur later.

An adapter whose operators submit tensors themselves (on GPUs, or without a wait) calls declare() with these operators.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hipress import runtime
from hipress._library import load_core
from hipress.adapter.operations import REFUSALS, Operation, Submitted, in_flight, tell_refusal, tells_refusals
from hipress.adapter.process_sets import ProcessSet, check, global_process_set
from hipress.adapter.reduce_ops import Average, ReduceOp
from hipress.errors import InvalidArgument

Buffer = NDArray[Any]
_Result = TypeVar("_Result")


def declare(
    kind: str,
    name: str | None,
    submit: Callable[[int], int],
    result: _Result,
    *,
    dtype: str,
    shape: Sequence[int],
    count: int | None = None,
    order: str = "",
    process_set: ProcessSet = global_process_set,
    **options: Any,
) -> Operation[_Result]:
    """Starts a collective whose result has a size that is known in advance.

    Arguments:
        kind: "allreduce", "broadcast", "reducescatter", or "allgather" with all `received` sizes.
        submit: submits the values to the engine under the given handle; returns the operation's number.
        result: the result of `wait()`.
        count: number of elements as the core counts them, if it is not the shape's: a complex one counts twice.
        order: text of the memory order, which ranks compare with the shape; empty for row-major.
        process_set: the ranks that call it.
        options: the other fields of TensorSpec.
    """
    full_name = in_flight(kind, name, check(process_set))
    handle = None
    try:
        spec = load_core().TensorSpec(
            full_name,
            collective=kind,
            dtype=dtype,
            count=math.prod(shape) if count is None else count,
            shape=str(list(shape)) + order,
            transient=True,
            among=process_set.among,
            **options,
        )
        handle = runtime.current().engine.announce(spec)
        operation = submit(handle)
    except BaseException as error:
        _refused(full_name, process_set, error, announced=handle is not None)
        raise
    return Operation([full_name], [Submitted(operation)], lambda _: result)


def check_codec_needs_name(name: str | None, codec: str) -> None:
    """Raises InvalidArgument if the codec has states, which need a name, and the tensor has no name."""
    if name is None and codec != "none" and load_core().create_codec(codec).states:
        raise InvalidArgument(
            f"codec {codec} keeps the dropped values of each tensor, by its name: give the tensor a name"
        )


def divided_rows(rows: int, process_set: ProcessSet = global_process_set) -> int:
    """Number of rows, of `rows`, that a reducescatter gives this rank; lower ranks may get one row more."""
    size, rank = process_set.size(), process_set.rank()
    return rows // size + (rank < rows % size)


def check_has_rows(shape: Sequence[int], kind: str, name: str | None) -> None:
    """Raises InvalidArgument for a scalar."""
    if len(shape) == 0:
        raise InvalidArgument(f"{kind} of '{name or 'a tensor'}': a scalar has no first dimension; give it shape [1]")


@tells_refusals("allreduce")
def allreduce(
    values: Buffer,
    output: Buffer | None = None,
    *,
    dtype: str | None = None,
    name: str | None = None,
    op: ReduceOp = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    codec: str = "none",
    topology: str = "ps",
    partitions: int = 0,
    process_set: ProcessSet = global_process_set,
) -> Operation[Buffer]:
    """Combines all ranks' values into `output`, which may be `values`; without `output`, into a new array."""
    check_codec_needs_name(name, codec)
    return _submitted(
        "allreduce",
        values,
        np.empty_like(values) if output is None else output,
        dtype,
        name,
        op=op.name,
        prescale=prescale_factor,
        postscale=postscale_factor,
        codec=codec,
        topology=topology,
        partitions=partitions,
        process_set=process_set,
    )


@tells_refusals("broadcast")
def broadcast(
    values: Buffer,
    output: Buffer | None = None,
    *,
    root_rank: int,
    dtype: str | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Operation[Buffer]:
    """Sends rank `root_rank`'s values into `output`, which may be `values`; without `output`, into a new array."""
    output = np.empty_like(values) if output is None else output
    return _submitted("broadcast", values, output, dtype, name, root=root_rank, process_set=process_set)


@tells_refusals("reducescatter")
def reducescatter(
    values: Buffer,
    *,
    dtype: str | None = None,
    name: str | None = None,
    op: ReduceOp = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Operation[Buffer]:
    """This rank's rows of the combination of all ranks' values: divided_rows() of them."""
    check_has_rows(values.shape, "reducescatter", name)
    output = np.empty((divided_rows(len(values), process_set), *values.shape[1:]), values.dtype)
    return _submitted(
        "reducescatter",
        values,
        output,
        dtype,
        name,
        op=op.name,
        prescale=prescale_factor,
        postscale=postscale_factor,
        rows=len(values),
        process_set=process_set,
    )


def allgather(
    values: Buffer,
    *,
    dtype: str | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Operation[Buffer]:
    """The rows of all ranks, in rank order. Ranks may have different numbers of rows, or no rows."""
    gathering = allgather_with_rows(values, dtype=dtype, name=name, process_set=process_set)
    return gathering.then(lambda gathered: gathered[0])


@tells_refusals("allgather")
def allgather_with_rows(
    values: Buffer,
    *,
    dtype: str | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Operation[tuple[Buffer, list[int]]]:
    """Does as allgather(); the result also has a list of the number of rows of each rank."""
    check_has_rows(values.shape, "allgather", name)
    return _moved("allgather", values, [len(values)], dtype, name, process_set)


@tells_refusals("alltoall")
def alltoall(
    values: Buffer,
    splits: Any = None,
    *,
    dtype: str | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Operation[tuple[Buffer, list[int]]]:
    """Sends the first `splits[0]` rows to the first rank of the set, the next `splits[1]` rows to the second one, and
    so on; without `splits`, every rank gets equally many.

    `splits`: a sequence of integers, or an array of an integer type. The result is the rows from all ranks, in rank
    order, and a list of the number of rows of each rank.
    """
    check_has_rows(values.shape, "alltoall", name)
    size = check(process_set).size()
    label = name or "a tensor"
    if splits is None:
        if len(values) % size != 0:
            raise InvalidArgument(
                f"alltoall of '{label}': {len(values)} rows are not divisible by {size} ranks; give splits"
            )
        splits = [len(values) // size] * size
    splits = _integers(splits, label)
    if len(splits) != size or min(splits) < 0 or sum(splits) != len(values):
        raise InvalidArgument(
            f"alltoall of '{label}': splits {list(splits)} must be one number for each of {size} ranks, 0 or more, "
            f"which add up to the {len(values)} rows"
        )
    return _moved("alltoall", values, splits, dtype, name, process_set)


def _integers(splits: Any, label: str) -> list[int]:
    numbers = np.asarray(splits)
    if numbers.ndim != 1 or (numbers.size > 0 and numbers.dtype.kind not in "iu"):
        raise InvalidArgument(
            f"alltoall of '{label}': splits must be integers, one for each rank, not {numbers.dtype} of shape "
            f"{list(numbers.shape)}: {splits!r}"
        )
    return [int(number) for number in numbers]


def barrier(process_set: ProcessSet = global_process_set) -> Operation[None]:
    """Ends when every rank of the set has started it."""
    nothing = np.empty(0, np.uint8)
    engine = runtime.current().engine
    name = check(process_set).numbered("barrier")
    sizes = [0] * process_set.size()
    return declare(
        "allgather",
        name,
        lambda handle: engine.submit(handle, nothing, nothing),
        None,
        dtype="uint8",
        shape=[0],
        received=sizes,
        process_set=process_set,
    )


def _refused(name: str, process_set: ProcessSet, error: BaseException, *, announced: bool) -> None:
    """The operation has not started. `announced`: the other ranks have its specification: it cannot be taken back."""
    runtime.current().in_flight.discard(name)
    if isinstance(error, REFUSALS) and not announced:
        tell_refusal(name, process_set, error)


def _submitted(
    kind: str, values: Buffer, output: Buffer, dtype: str | None, name: str | None, **options: Any
) -> Operation[Buffer]:
    engine = runtime.current().engine
    return declare(
        kind,
        name,
        lambda handle: engine.submit(handle, values, output),
        output,
        dtype=dtype or values.dtype.name,
        shape=values.shape,
        **options,
    )


def _moved(
    kind: str, values: Buffer, rows: Sequence[int], dtype: str | None, name: str | None, process_set: ProcessSet
) -> Operation[tuple[Buffer, list[int]]]:
    """Starts an allgather or alltoall; the result is the rows, and a list of the number of rows of each rank."""
    core = load_core()
    row = values.shape[1:]
    full_name = in_flight(kind, name, check(process_set))
    try:
        spec = core.TensorSpec(
            full_name,
            collective=kind,
            dtype=dtype or values.dtype.name,
            count=0,
            shape="[" + ", ".join(["*", *map(str, row)]) + "]",
            transient=True,
            among=process_set.among,
        )
        blocks = core.move_blocks(runtime.current().engine, spec, values, math.prod(row), list(rows))
    except BaseException as error:
        _refused(full_name, process_set, error, announced=False)
        raise

    def result(waited: list[tuple[Buffer, list[int]]]) -> tuple[Buffer, list[int]]:
        ((moved, received),) = waited
        return moved.view(values.dtype).reshape(sum(received), *row), received

    return Operation([full_name], [blocks], result)
