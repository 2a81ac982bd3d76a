# SPDX-License-Identifier: Apache-2.0
"""map(vector, …, function): the function of each element. No map has a place in memory (passes/vectors.py, Mapped)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipress.compll import ir
from hipress.compll.check.arguments import bind
from hipress.compll.check.maps import lower_map
from hipress.compll.check.operators import Result
from hipress.compll.check.scope import Scope
from hipress.compll.frontend import syntax as s
from hipress.compll.passes.fuse import Planner
from hipress.compll.passes.operators import Planning
from hipress.compll.reference.evaluate import Environment, apply, dtype, evaluate


def rule(node: s.Call, scope: Scope) -> Result:
    value, types = lower_map(node, scope)
    if len(types) != 1:
        raise scope.unit.error(node.span, f"this map has {len(types)} results", "write (float* a, float* b) = map(...)")
    return bind(scope, "mapped", types[0].element, value)


def meaning(op: ir.Map, environment: Environment) -> tuple[NDArray[Any], ...]:
    """All results of the function. A random number in it depends on the element's index."""
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


def _plan(planner: Planner, name: str, op: ir.Map) -> None:
    """Nothing: what uses the map computes its elements."""


PLANNING = Planning(_plan)
