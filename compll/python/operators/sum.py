# SPDX-License-Identifier: Apache-2.0
"""sum(vector): reduce(vector, 0, +), in int for integers and in double for other elements."""

from __future__ import annotations

from hipress.compll import ir
from hipress.compll.check.conversions import convert
from hipress.compll.check.expressions import vector
from hipress.compll.check.operators import Result
from hipress.compll.check.scope import Scope
from hipress.compll.frontend import syntax as s


def rule(node: s.Call, scope: Scope) -> Result:
    values, span = vector(node.arguments[0], scope), node.span
    type_ = ir.INT if values.type.element.kind in ("bool", "uint", "int") else ir.DOUBLE
    a, b = (ir.Var(name=scope.unit.fresh(x), type=type_, span=span) for x in ("a", "b"))
    plus = ir.Binary(operator="+", left=a, right=b, type=type_, span=span)
    function = ir.Lambda(parameters=((a.name, type_), (b.name, type_)), lets=(), results=(plus,), span=span)
    zero = convert(scope.unit, ir.Const(value=0, type=ir.INT, span=span), type_, span)
    value = ir.Reduce(vector=values.name, init=zero, function=function, span=span)
    return ir.Var(name=scope.let("sum", type_, value, span), type=type_, span=span)
