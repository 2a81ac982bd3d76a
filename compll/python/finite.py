# SPDX-License-Identifier: Apache-2.0
"""Which checks for NaN and infinity the others make superfluous.

Encode must find out whether the gradient is finite, and whether every new state is. If a state's value cannot be
finite where the gradient's is not, the second check is enough: error feedback nearly always has the form value −
decoded.
"""

from __future__ import annotations

from hipress.compll import ir, plan
from hipress.compll.vectors import Mapped, Source, Vectors

_KEEP = ("abs", "sqrt", "floor", "ceil", "round")


def states_guard_gradient(steps: list[plan.Step], vectors: Vectors) -> bool:
    """Whether a new state, no element of which is replaced later, is finite only where the gradient is."""
    sinks = [sink for step in steps if isinstance(step, plan.Loop) for sink in step.sinks()]
    replaced = {sink.target.name for sink in sinks if isinstance(sink, plan.ScatterTo)}
    return any(
        isinstance(sink, plan.StoreTo)
        and sink.target.kind == "state"
        and sink.target.name not in replaced
        and _poisoned(vectors, sink.vector)
        for sink in sinks
    )


def _poisoned(vectors: Vectors, vector: str) -> bool:
    """Whether the vector's element is not finite where the gradient's is not."""
    definition = vectors.definitions[vector]
    match definition:
        case Source(name=name):
            return name == ir.GRADIENT
        case Mapped(op, result):
            names = {
                name
                for (name, _), access in zip(op.function.parameters, op.inputs, strict=True)
                if isinstance(access, ir.Vec) and _poisoned(vectors, access.vector)
            }
            for let in op.function.lets:
                assert isinstance(let.value, ir.Expr)
                if _carries(let.value, names):
                    names.add(let.name)
            return _carries(op.function.results[result], names)
    return False


def _carries(expr: ir.Expr, names: set[str]) -> bool:
    """Whether the value is not finite if those of `names` are not."""
    if expr.type.kind not in ("float", "double"):
        return False
    match expr:
        case ir.Var(name=name):
            return name in names
        case ir.Unary(operand=operand) | ir.Cast(operand=operand):
            return _carries(operand, names)
        case ir.Binary(operator=operator, left=left, right=right):
            return _carries(left, names) or (operator in "+-*" and _carries(right, names))
        case ir.Select(yes=yes, no=no):
            return _carries(yes, names) and _carries(no, names)
        case ir.Call(function=function, arguments=(argument,)):
            return function in _KEEP and _carries(argument, names)
    return False
