# SPDX-License-Identifier: Apache-2.0
"""The meaning of the operators that give vectors: map, filter, sort, gather, scatter, take, range, fill."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from hipress.compll import ir
from hipress.compll.evaluate import Environment, apply, dtype, evaluate
from hipress.errors import CorruptPayload, InvalidArgument


def map_(op: ir.Map, environment: Environment) -> tuple[NDArray[Any], ...]:
    """All results of a map; random numbers inside are those of the element's index."""
    whole = next(a for a in op.inputs if isinstance(a, ir.Vec))
    count = len(environment.vectors[whole.vector])
    arguments = []
    for access in op.inputs:
        values = environment.vectors[access.vector]
        if isinstance(access, ir.Spread):
            values = values[np.arange(count) // max(1, int(evaluate(access.block, environment)))]
        arguments.append(values)
    results = apply(op.function, tuple(arguments), environment, np.arange(count))
    return tuple(
        np.array(np.broadcast_to(result, (count,)), dtype(expr.type))
        for result, expr in zip(results, op.function.results, strict=True)
    )


def filter_(op: ir.Filter, environment: Environment) -> NDArray[Any]:
    """The elements for which the predicate holds, in order."""
    values = environment.vectors[op.vector]
    (kept,) = apply(op.predicate, (values,), environment, np.arange(len(values)))
    chosen: NDArray[Any] = values[np.broadcast_to(np.asarray(kept) != 0, values.shape)]
    return chosen


def sort(op: ir.Sort, environment: Environment) -> NDArray[Any]:
    """Stable, by ascending key; NaN keys last, in order."""
    values = environment.vectors[op.vector]
    (keys,) = apply(op.key, (values,), environment, np.arange(len(values)))
    ordered: NDArray[Any] = values[np.argsort(np.broadcast_to(keys, values.shape), kind="stable")]
    return ordered


def gather(op: ir.Gather, environment: Environment, *, decoding: bool) -> NDArray[Any]:
    """values[indices[j]] for every j."""
    values, indices = environment.vectors[op.vector], environment.vectors[op.indices]
    _check(indices, len(values), "gather", decoding=decoding)
    gathered: NDArray[Any] = values[indices]
    return gathered


def scatter(op: ir.Scatter, environment: Environment, *, decoding: bool) -> NDArray[Any]:
    """A copy of the base with values put at the indices."""
    result: NDArray[Any] = environment.vectors[op.base].copy()
    indices = environment.vectors[op.indices]
    _check(indices, len(result), "scatter", decoding=decoding)
    # Duplicates would make the result depend on the order of writing, which devices are free to choose.
    falls = np.flatnonzero(indices[1:] <= indices[:-1])
    if len(falls):
        at = int(falls[0])
        _fail(f"scatter: index {indices[at + 1]} follows {indices[at]}; indices must increase", decoding=decoding)
    if isinstance(op.values, ir.Vec):
        result[indices] = environment.vectors[op.values.vector]
    else:
        result[indices] = evaluate(op.values, environment)
    return result


def take(op: ir.Take, environment: Environment) -> NDArray[Any]:
    """The first `count` elements, or all if there are fewer."""
    first: NDArray[Any] = environment.vectors[op.vector][: max(0, int(evaluate(op.count, environment)))]
    return first


def range_(op: ir.Range, environment: Environment) -> NDArray[Any]:
    """0, 1, …, count − 1."""
    return np.arange(max(0, int(evaluate(op.count, environment))), dtype=np.int32)


def fill(op: ir.Fill, environment: Environment) -> NDArray[Any]:
    """`count` times the same value."""
    count = max(0, int(evaluate(op.count, environment)))
    return np.full(count, evaluate(op.value, environment), dtype(op.value.type))


def _check(indices: NDArray[Any], size: int, operator: str, *, decoding: bool) -> None:
    wrong = np.flatnonzero((indices < 0) | (indices >= size))
    if len(wrong):
        _fail(f"{operator}: index {indices[wrong[0]]} in a vector of {size} elements", decoding=decoding)


def _fail(message: str, *, decoding: bool) -> NoReturn:
    """In decode the indices came from a message; in encode the program made them."""
    if decoding:
        raise CorruptPayload(message)
    raise InvalidArgument(f"the codec's encode is wrong: {message}")
