# SPDX-License-Identifier: Apache-2.0
"""add(levels, most): the part of the message that ranks add without decoding. Its value is `levels`."""

from __future__ import annotations

from hipress.compll import ir
from hipress.compll.check.arguments import whole
from hipress.compll.check.conversions import convert
from hipress.compll.check.expressions import scalar
from hipress.compll.check.length_keys import GRADIENT_LENGTH
from hipress.compll.check.operators import Result
from hipress.compll.check.scope import Added, Scope
from hipress.compll.frontend import syntax as s
from hipress.compll.passes.vectors import parts

_LEVEL = ir.Scalar("int", 8)


def rule(node: s.Call, scope: Scope) -> Result:
    unit = scope.unit
    if unit.role != "encode":
        raise unit.error(node.span, "add says what ranks add of the message, so it stands in encode")
    if unit.added is not None:
        raise unit.error(node.span, "a second part of the message is added", "ranks add one vector")
    levels = whole(node.arguments[0], scope)
    if levels.type.element != _LEVEL or levels.type.length != GRADIENT_LENGTH:
        raise unit.error(
            node.arguments[0].span,
            f"ranks add int8* that is as long as the gradient, this is {levels.type.element}*",
            "let the function that computes the levels return int8",
        )
    most = convert(unit, scalar(node.arguments[1], scope), ir.INT, node.arguments[1].span)
    if not all(isinstance(part, ir.Const | ir.ParamRef | ir.Cast | ir.Binary) for part in parts(most)):
        raise unit.error(
            node.arguments[1].span, "the greatest level follows from parameters only", "write add(level, params.levels)"
        )
    if isinstance(most, ir.Const) and not 1 <= most.value <= 127:
        raise unit.error(node.arguments[1].span, f"{most.value} is no greatest level of an int8", "it is 1 to 127")
    unit.added = Added(levels.name, most, node.span)
    return levels
