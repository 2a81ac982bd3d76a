# SPDX-License-Identifier: Apache-2.0
"""The order of reductions: part of the language, so that every device gives the same bits.

reduce(v, init, f), in the type of f: 1. v is cut into blocks of 4096 elements (BLOCK). In a block, element i belongs
to lane i mod 16 (LANES). Each lane combines its elements in order, from its first one: ((x0 f x16) f x32) … Lanes
without an element do not exist. 2. The block's result combines its lanes in order: ((lane 0 f lane 1) f lane 2) … 3.
If there were several blocks, their results are reduced in the same way, until one value is left. 4. The result is
init f that value; init alone if v is empty. reduce_blocks does the same for each of its blocks, as if it were a
vector of its own.

Sixteen lanes fill two AVX-512 registers of doubles, or half a warp. Threads and warps work on blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipress.compll import ir
from hipress.compll.ir.functions import FUNCTIONS
from hipress.compll.reference.evaluate import Environment, apply, binary, cast, evaluate

LANES = 16
BLOCK = 4096


def reduce(op: ir.Reduce, environment: Environment) -> Any:
    """The reduction of the whole vector."""
    return _finish(op, environment.vectors[op.vector], environment)


def reduce_blocks(op: ir.ReduceBlocks, environment: Environment) -> NDArray[Any]:
    """One reduction for each block; the result's length is ⌈length / block⌉."""
    values = environment.vectors[op.vector]
    block = max(1, int(evaluate(op.block, environment)))
    kind = cast(values[:0], op.function.parameters[0][1], environment).dtype
    init = evaluate(op.init, environment)
    full = len(values) // block
    results = np.empty(-(-len(values) // block), kind)
    if full:
        rows = cast(values[: full * block].reshape(full, block), op.function.parameters[0][1], environment)
        results[:full] = _combine(op, init, _levels(op, rows, environment), environment)
    if full < len(results):
        results[full] = _finish(op, values[full * block :], environment)
    return results


def _finish(op: ir.Reduce, values: NDArray[Any], environment: Environment) -> Any:
    init = evaluate(op.init, environment)
    if not len(values):
        return init
    rows = cast(values.reshape(1, -1), op.function.parameters[0][1], environment)
    return _combine(op, init, _levels(op, rows, environment), environment)[0]


def _combine(op: ir.Reduce, left: Any, right: Any, environment: Environment) -> Any:
    # A function that does not use its second argument gives a scalar.
    return np.broadcast_to(apply(op.function, (left, right), environment, 0)[0], np.shape(right))


def _combination(op: ir.Reduce, environment: Environment) -> Callable[[Any, Any], Any]:
    """_combine() without its detours if the function is a sum, a minimum or a maximum of its arguments: a reduction
    calls it for every 16 elements."""
    arguments = [name for name, _ in op.function.parameters]
    match op.function.results[0]:
        case ir.Binary(operator=operator, left=ir.Var(name=left), right=ir.Var(name=right)):
            if [left, right] == arguments:
                return partial(binary, operator)
        case ir.Call(function=function, arguments=(ir.Var(name=left), ir.Var(name=right))):
            if [left, right] == arguments:
                return FUNCTIONS[function].meaning
    return lambda left, right: _combine(op, left, right, environment)


def _levels(op: ir.Reduce, rows: NDArray[Any], environment: Environment) -> NDArray[Any]:
    """The reduction of each row, without init."""
    while rows.shape[1] > 1:
        count = rows.shape[1]
        full = count // BLOCK
        parts = []
        if full:
            blocks = rows[:, : full * BLOCK].reshape(-1, BLOCK)
            parts.append(_block(op, blocks, environment).reshape(len(rows), full))
        if count % BLOCK:
            parts.append(_block(op, rows[:, full * BLOCK :], environment).reshape(len(rows), 1))
        rows = np.concatenate(parts, axis=1)
    return rows[:, 0]


def _block(op: ir.Reduce, blocks: NDArray[Any], environment: Environment) -> NDArray[Any]:
    """Steps 1 and 2 for many blocks of one length at once."""
    count = blocks.shape[1]
    combine = _combination(op, environment)
    lanes = blocks[:, :LANES].copy()
    for start in range(LANES, count, LANES):
        group = blocks[:, start : start + LANES]
        lanes[:, : group.shape[1]] = combine(lanes[:, : group.shape[1]], group)
    result = lanes[:, 0]
    for lane in range(1, lanes.shape[1]):
        result = combine(result, lanes[:, lane])
    return np.asarray(result)
