# SPDX-License-Identifier: Apache-2.0
"""The operators on vectors: what they take, what they give, and how long that is."""

from __future__ import annotations

from collections.abc import Callable

from hipress.compll import check_expressions, check_lambdas, check_vectors, ir, lengths
from hipress.compll import syntax as s
from hipress.compll.check_arguments import bind, block_size, function_for, single, whole
from hipress.compll.conversions import convert
from hipress.compll.functions import OPERATORS
from hipress.compll.scope import Scope, VectorRef

Result = ir.Expr | VectorRef


def lower(node: s.Call, scope: Scope) -> Result:
    """The result of an operator whose name is in OPERATORS."""
    counts = {"map": (2, 9), "take": (2, 2), "range": (1, 1), "sum": (1, 1), "concat": (1, 99)}
    few, many = counts.get(node.name, (OPERATORS[node.name].count(",") + 1,) * 2)
    if not few <= len(node.arguments) <= many:
        raise scope.unit.error(
            node.span, f"'{node.name}' does not take {len(node.arguments)} arguments", f"write {OPERATORS[node.name]}"
        )
    return _LOWER[node.name](node, scope)


def lower_map(node: s.Call, scope: Scope) -> tuple[ir.Map, tuple[ir.Vector, ...]]:
    """A map, which may have several results."""
    unit = scope.unit
    inputs = [check_expressions.vector(a, scope) for a in node.arguments[:-1]]
    called = function_for(node.arguments[-1], scope, tuple(v.type.element for v in inputs))
    whole = [v for v in inputs if v.spread is None]
    if not whole:
        raise unit.error(node.span, "one of map's vectors must not be spread", "it says how long the result is")
    length = whole[0].type.length
    for reference, argument in zip(inputs, node.arguments, strict=False):
        if reference.spread is not None:
            wanted = lengths.blocks(length, unit.key(reference.spread))
            what = f"{lengths.shown(wanted)} are needed"
        else:
            wanted, what = length, f"'{whole[0].name}' has {lengths.shown(length)}"
        if reference.type.length != wanted:
            raise unit.error(
                argument.span,
                f"sizes differ: this vector has {lengths.shown(reference.type.length)} elements, {what}",
                "map takes vectors that are certainly equally long",
            )
    function = check_lambdas.as_lambda(called, node.arguments[-1].span)
    accesses = tuple(
        ir.Vec(vector=v.name, span=a.span)
        if v.spread is None
        else ir.Spread(vector=v.name, block=v.spread, span=a.span)
        for v, a in zip(inputs, node.arguments, strict=False)
    )
    types = tuple(ir.Vector(result.type, length) for result in function.results)
    return ir.Map(inputs=accesses, function=function, span=node.span), types


def _map(node: s.Call, scope: Scope) -> Result:
    value, types = lower_map(node, scope)
    if len(types) != 1:
        raise scope.unit.error(node.span, f"this map has {len(types)} results", "write (float* a, float* b) = map(...)")
    return bind(scope, "mapped", types[0], value)


def _reducer(argument: s.Expression, element: ir.Scalar, scope: Scope) -> ir.Lambda:
    sites = scope.unit.sites
    called = function_for(argument, scope, (element, element))
    function = single(called, argument, scope)
    if scope.unit.sites != sites:
        raise scope.unit.error(argument.span, "a reduction cannot be random", "its order would show")
    types = {type_ for _, type_ in function.parameters} | {function.results[0].type}
    if len(types) != 1:
        raise scope.unit.error(argument.span, "a reduction takes two values of one type and gives that type")
    return function


def _reduce(node: s.Call, scope: Scope) -> Result:
    values = whole(node.arguments[0], scope)
    function = _reducer(node.arguments[2], values.type.element, scope)
    type_ = function.results[0].type
    init = convert(scope.unit, check_expressions.scalar(node.arguments[1], scope), type_, node.arguments[1].span)
    if node.name == "reduce":
        value = ir.Reduce(vector=values.name, init=init, function=function, span=node.span)
        return ir.Var(name=scope.let("reduced", type_, value, node.span), type=type_, span=node.span)
    block = block_size(node.arguments[3], scope)
    blocks = ir.ReduceBlocks(vector=values.name, init=init, function=function, block=block, span=node.span)
    length = lengths.blocks(values.type.length, scope.unit.key(block))
    return bind(scope, "blocks", ir.Vector(type_, length), blocks)


def _sum(node: s.Call, scope: Scope) -> Result:
    """sum(v): reduce(v, 0, +) in int for integers, otherwise in double."""
    values, span = check_expressions.vector(node.arguments[0], scope), node.span
    type_ = ir.INT if values.type.element.kind in ("bool", "uint", "int") else ir.DOUBLE
    a, b = (ir.Var(name=scope.unit.fresh(x), type=type_, span=span) for x in ("a", "b"))
    plus = ir.Binary(operator="+", left=a, right=b, type=type_, span=span)
    function = ir.Lambda(parameters=((a.name, type_), (b.name, type_)), lets=(), results=(plus,), span=span)
    zero = convert(scope.unit, ir.Const(value=0, type=ir.INT, span=span), type_, span)
    value = ir.Reduce(vector=values.name, init=zero, function=function, span=span)
    return ir.Var(name=scope.let("sum", type_, value, span), type=type_, span=span)


def _concat(node: s.Call, scope: Scope) -> Result:
    raise scope.unit.error(node.span, "concat makes the message", "write compressed = concat(...)")


_LOWER: dict[str, Callable[[s.Call, Scope], Result]] = {
    "map": _map,
    "reduce": _reduce,
    "reduce_blocks": _reduce,
    "sum": _sum,
    "filter": check_vectors.filter_,
    "sort": check_vectors.sort_,
    "gather": check_vectors.gather_,
    "scatter": check_vectors.scatter_,
    "take": check_vectors.take_,
    "range": check_vectors.range_,
    "fill": check_vectors.fill_,
    "spread": check_vectors.spread_,
    "concat": _concat,
}
