# SPDX-License-Identifier: Apache-2.0
"""The operators that give vectors, but for map: what they take and how long the result is."""

from __future__ import annotations

from hipress.compll import check_expressions, ir, lengths
from hipress.compll import syntax as s
from hipress.compll.check_arguments import bind, block_size, function_for, single, whole
from hipress.compll.conversions import convert
from hipress.compll.scope import Scope, VectorRef

Result = ir.Expr | VectorRef


def filter_(node: s.Call, scope: Scope) -> Result:
    values = whole(node.arguments[0], scope)
    predicate = single(function_for(node.arguments[1], scope, (values.type.element,)), node.arguments[1], scope)
    result = predicate.results[0].type
    if result.kind not in ("bool", "uint", "int"):
        raise scope.unit.error(node.arguments[1].span, f"a filter's function gives bool, this one gives {result}")
    value = ir.Filter(vector=values.name, predicate=predicate, span=node.span)
    name = scope.unit.fresh("kept")
    type_ = ir.Vector(values.type.element, f"filter:{name}")
    return bind(scope, name, type_, value)


def sort_(node: s.Call, scope: Scope) -> Result:
    values = whole(node.arguments[0], scope)
    key = single(function_for(node.arguments[1], scope, (values.type.element,)), node.arguments[1], scope)
    return bind(scope, "sorted", values.type, ir.Sort(vector=values.name, key=key, span=node.span))


def _indices(argument: s.Expression, scope: Scope) -> VectorRef:
    indices = whole(argument, scope)
    if indices.type.element != ir.INT:
        raise scope.unit.error(argument.span, f"indices are int32, these are {indices.type.element}")
    return indices


def gather_(node: s.Call, scope: Scope) -> Result:
    values, indices = whole(node.arguments[0], scope), _indices(node.arguments[1], scope)
    value = ir.Gather(vector=values.name, indices=indices.name, span=node.span)
    return bind(scope, "gathered", ir.Vector(values.type.element, indices.type.length), value)


def scatter_(node: s.Call, scope: Scope) -> Result:
    unit = scope.unit
    base, indices = whole(node.arguments[0], scope), _indices(node.arguments[1], scope)
    written = check_expressions.lower(node.arguments[2], scope)
    span = node.arguments[2].span
    values: ir.Vec | ir.Expr
    if isinstance(written, VectorRef):
        if written.type.length != indices.type.length:
            raise unit.error(
                span,
                f"sizes differ: {lengths.shown(written.type.length)} values"
                f" for {lengths.shown(indices.type.length)} indices",
            )
        if written.type.element != base.type.element:
            raise unit.error(span, f"{written.type.element} values cannot go into a vector of {base.type.element}")
        values = ir.Vec(vector=written.name, span=span)
    else:
        values = convert(unit, check_expressions.scalar(node.arguments[2], scope), base.type.element, span)
    value = ir.Scatter(base=base.name, indices=indices.name, values=values, span=node.span)
    return bind(scope, "scattered", base.type, value)


def _count(argument: s.Expression, scope: Scope) -> ir.Expr:
    count = convert(scope.unit, check_expressions.scalar(argument, scope), ir.INT, argument.span)
    if isinstance(count, ir.Const) and count.value < 0:
        raise scope.unit.error(argument.span, f"a vector of {count.value} elements")
    return count


def take_(node: s.Call, scope: Scope) -> Result:
    values, count = whole(node.arguments[0], scope), _count(node.arguments[1], scope)
    length = f"take({values.type.length}, {scope.unit.key(count)})"
    value = ir.Take(vector=values.name, count=count, span=node.span)
    return bind(scope, "taken", ir.Vector(values.type.element, length), value)


def range_(node: s.Call, scope: Scope) -> Result:
    count = _count(node.arguments[0], scope)
    type_ = ir.Vector(ir.INT, scope.unit.key(count))
    return bind(scope, "range", type_, ir.Range(count=count, span=node.span))


def fill_(node: s.Call, scope: Scope) -> Result:
    count, value = _count(node.arguments[0], scope), check_expressions.scalar(node.arguments[1], scope)
    type_ = ir.Vector(value.type, scope.unit.key(count))
    return bind(scope, "filled", type_, ir.Fill(count=count, value=value, span=node.span))


def spread_(node: s.Call, scope: Scope) -> Result:
    values = whole(node.arguments[0], scope)
    return VectorRef(values.name, values.type, block_size(node.arguments[1], scope))
