# SPDX-License-Identifier: Apache-2.0
"""step(): how often the tensor was synchronised before."""

from __future__ import annotations

from hipress.compll import ir
from hipress.compll.check.scope import Scope
from hipress.compll.frontend import syntax as s


def step(node: s.Call, scope: Scope) -> ir.Expr:
    """The number of the step. Only encode has it: a message may be decoded at any time."""
    unit, span = scope.unit, node.span
    if node.arguments:
        raise unit.error(span, f"'step' takes no arguments, not {len(node.arguments)}", "write step()")
    if unit.role == "table":
        raise unit.error(span, "a table cannot use the number of the step", "its elements are constants")
    if unit.role != "encode":
        raise unit.error(span, "decode cannot use the number of the step", "send what decode needs in the message")
    if scope.in_lambda:
        raise unit.error(span, "'step' cannot stand inside a function of elements", "before it: int now = step();")
    return ir.StepNumber(type=ir.INT, span=span)
