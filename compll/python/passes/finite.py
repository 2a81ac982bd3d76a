# SPDX-License-Identifier: Apache-2.0
"""Whether a check for NaN and infinity can be left out.

Encode must check that the gradient and every new state are finite. If an element of a new state cannot be finite where
the gradient's element is not, the check of the state is enough. Error feedback nearly always is so: its new state is
value − decoded.
"""

from __future__ import annotations

from hipress.compll import ir
from hipress.compll.passes import plan
from hipress.compll.passes.vectors import Mapped, Source, Vectors

_KEEP = ("abs", "sqrt", "floor", "ceil", "round")


def guarding_state(steps: list[plan.Step], vectors: Vectors) -> str | None:
    """A state whose new value is finite only where the gradient is, and of which no scatter replaces elements."""
    replaced = replaced_states(steps)
    for sink in _sinks(steps):
        if not isinstance(sink, plan.StoreTo) or sink.place.kind != "state" or sink.place.name in replaced:
            continue
        if _poisoned(vectors, sink.vector):
            return sink.place.name
    return None


def replaced_states(steps: list[plan.Step]) -> set[str]:
    """The states of which scatters replace elements that an earlier loop has stored."""
    scatters = [sink for sink in _sinks(steps) if isinstance(sink, plan.ScatterTo)]
    return {sink.place.name for sink in scatters if sink.place.kind == "state"}


def _sinks(steps: list[plan.Step]) -> list[plan.Sink]:
    return [sink for step in steps if isinstance(step, plan.Loop) for sink in step.sinks()]


def _poisoned(vectors: Vectors, vector: str) -> bool:
    """Whether the vector's element is certainly not finite where the gradient's element is not."""
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
    """Whether the value is certainly not finite if the values of `names` are not."""
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
