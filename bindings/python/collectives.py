# SPDX-License-Identifier: Apache-2.0
"""Collectives on buffers: what the frameworks' collectives are made of.

A buffer is a C-contiguous NumPy array over a framework's own memory. NumPy has no bfloat16: such an array holds the
bytes as int16, and `dtype` says what they are. Each function starts an operation and returns it at once; its `wait()`
gives the result: an array of the input's kind.

    operation = collectives.allgather(array, name="x")
    result = operation.wait()

Every rank starts an operation with the same name, element type and options; those without a name are matched by the
order of the calls. A buffer must not change before `wait()` has returned. All raise InvalidArgument, Unsupported,
Mismatch, DuplicateName, PeerLost, Timeout, NotInitialized; what only shows later `wait()` raises.

An adapter whose operators submit tensors themselves (on GPUs, or without a wait) uses declare() with them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipress import runtime
from hipress._library import load_core
from hipress.errors import InvalidArgument
from hipress.operations import Operation, Submitted, named
from hipress.reduce_ops import Average, ReduceOp

Buffer = NDArray[Any]


def declare(
    kind: str,
    name: str | None,
    submit: Callable[[int], int],
    result: Any,
    *,
    dtype: str,
    shape: Sequence[int],
    order: str = "",
    **options: Any,
) -> Operation:
    """Starts a collective whose result has a size that is known before.

    Arguments:
        kind: "allreduce", "broadcast" or "reducescatter", or "allgather" with all `received` sizes.
        submit: hands the values to the engine under the handle it is given; returns the operation's number.
        result: what `wait()` is to return.
        order: what to add to the shape if the values are in another order than row-major.
        options: the rest of TensorSpec.
    """
    full_name = named(kind, name)
    try:
        spec = load_core().TensorSpec(
            full_name,
            collective=kind,
            dtype=dtype,
            count=math.prod(shape),
            shape=str(list(shape)) + order,
            transient=True,
            **options,
        )
        (handle,) = runtime.current().engine.declare([spec])
        operation = submit(handle)
    except BaseException:
        runtime.current().in_flight.discard(full_name)
        raise
    return Operation([full_name], [Submitted(operation)], lambda _: result)


def check_codec_needs_name(name: str | None, codec: str) -> None:
    """Raises InvalidArgument if the codec remembers something of each tensor, and this one has no name."""
    if name is None and codec != "none" and load_core().create_codec(codec).states:
        raise InvalidArgument(
            f"codec {codec} keeps for each tensor what it dropped, to send it later: give the tensor a name"
        )


def divided_rows(rows: int) -> int:
    """How many of `rows` rows this rank gets of a reducescatter: lower ranks get one more if they do not divide."""
    size, rank = runtime.size(), runtime.rank()
    return rows // size + (rank < rows % size)


def check_has_rows(shape: Sequence[int], kind: str, name: str | None) -> None:
    """Raises InvalidArgument for a scalar."""
    if len(shape) == 0:
        raise InvalidArgument(f"{kind} of '{name or 'a tensor'}': a scalar has no first dimension; give it shape [1]")


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
) -> Operation:
    """The combination of all ranks' values, in `output`, which may be `values`; a new array if it is not given."""
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
    )


def broadcast(
    values: Buffer, output: Buffer | None = None, *, root_rank: int, dtype: str | None = None, name: str | None = None
) -> Operation:
    """Rank `root_rank`'s values, in `output`, which may be `values`; a new array if it is not given."""
    output = np.empty_like(values) if output is None else output
    return _submitted("broadcast", values, output, dtype, name, root=root_rank)


def reducescatter(
    values: Buffer,
    *,
    dtype: str | None = None,
    name: str | None = None,
    op: ReduceOp = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Operation:
    """This rank's rows of the combination of all ranks' values: divided_rows() of them."""
    check_has_rows(values.shape, "reducescatter", name)
    output = np.empty((divided_rows(len(values)), *values.shape[1:]), values.dtype)
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
    )


def allgather(values: Buffer, *, dtype: str | None = None, name: str | None = None) -> Operation:
    """The rows of all ranks, in the order of the ranks. Ranks may have different numbers of rows, or none."""
    return allgather_with_rows(values, dtype=dtype, name=name).then(lambda gathered: gathered[0])


def allgather_with_rows(values: Buffer, *, dtype: str | None = None, name: str | None = None) -> Operation:
    """As allgather(), and a list of how many rows came from each rank."""
    check_has_rows(values.shape, "allgather", name)
    return _moved("allgather", values, [len(values)], dtype, name)


def alltoall(
    values: Buffer, splits: Sequence[int] | None = None, *, dtype: str | None = None, name: str | None = None
) -> Operation:
    """The first `splits[0]` rows to rank 0, the next `splits[1]` to rank 1, and so on; without splits equally many.

    The result is the rows from all ranks, in the order of the ranks, and a list of how many came from each.
    """
    check_has_rows(values.shape, "alltoall", name)
    size = runtime.size()
    label = name or "a tensor"
    if splits is None:
        if len(values) % size != 0:
            raise InvalidArgument(
                f"alltoall of '{label}': {len(values)} rows are not divisible by {size} ranks; give splits"
            )
        splits = [len(values) // size] * size
    if len(splits) != size or min(splits) < 0 or sum(splits) != len(values):
        raise InvalidArgument(
            f"alltoall of '{label}': splits {list(splits)} must be one number for each of {size} ranks, 0 or more, "
            f"which add up to the {len(values)} rows"
        )
    return _moved("alltoall", values, splits, dtype, name)


def barrier() -> Operation:
    """Ends when every rank has started it."""
    nothing = np.empty(0, np.uint8)
    engine = runtime.current().engine
    name = runtime.current().numbered("barrier")
    sizes = [0] * runtime.size()
    return declare(
        "allgather",
        name,
        lambda handle: engine.submit(handle, nothing, nothing),
        None,
        dtype="uint8",
        shape=[0],
        received=sizes,
    )


def _submitted(
    kind: str, values: Buffer, output: Buffer, dtype: str | None, name: str | None, **options: Any
) -> Operation:
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


def _moved(kind: str, values: Buffer, rows: Sequence[int], dtype: str | None, name: str | None) -> Operation:
    """The result: the rows, and how many came from each rank."""
    core = load_core()
    row = values.shape[1:]
    full_name = named(kind, name)
    try:
        spec = core.TensorSpec(
            full_name,
            collective=kind,
            dtype=dtype or values.dtype.name,
            count=0,
            shape="[" + ", ".join(["*", *map(str, row)]) + "]",
            transient=True,
        )
        blocks = core.move_blocks(runtime.current().engine, spec, values, math.prod(row), list(rows))
    except BaseException:
        runtime.current().in_flight.discard(full_name)
        raise

    def result(waited: list[tuple[Buffer, list[int]]]) -> tuple[Buffer, list[int]]:
        ((moved, received),) = waited
        return moved.view(values.dtype).reshape(sum(received), *row), received

    return Operation([full_name], [blocks], result)
