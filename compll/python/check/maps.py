# SPDX-License-Identifier: Apache-2.0
"""map, the only operator that may have several results."""

from __future__ import annotations

from hipress.compll import ir
from hipress.compll.check import expressions, lambdas, length_keys
from hipress.compll.check.arguments import function_for
from hipress.compll.check.scope import Scope
from hipress.compll.frontend import syntax as s


def lower_map(node: s.Call, scope: Scope) -> tuple[ir.Map, tuple[ir.Vector, ...]]:
    """A map, which may have several results."""
    unit = scope.unit
    inputs = [expressions.vector(a, scope) for a in node.arguments[:-1]]
    called = function_for(node.arguments[-1], scope, tuple(v.type.element for v in inputs))
    whole = [v for v in inputs if v.spread is None]
    if not whole:
        raise unit.error(node.span, "map needs a vector that is not spread", "that vector gives the result its length")
    length = whole[0].type.length
    for reference, argument in zip(inputs, node.arguments, strict=False):
        if reference.spread is not None:
            wanted = length_keys.blocks(length, unit.key(reference.spread))
            what = f"{length_keys.shown(wanted)} are needed"
        else:
            wanted, what = length, f"'{whole[0].name}' has {length_keys.shown(length)}"
        if reference.type.length != wanted:
            raise unit.error(
                argument.span,
                f"sizes differ: this vector has {length_keys.shown(reference.type.length)} elements, {what}",
                "map takes vectors whose lengths are certainly equal"
                + ("; require(a.size == b.size) makes them so" if unit.role == "decode" else ""),
            )
    function = lambdas.as_lambda(called, node.arguments[-1].span)
    accesses = tuple(
        ir.Vec(vector=v.name, span=a.span)
        if v.spread is None
        else ir.Spread(vector=v.name, block=v.spread, span=a.span)
        for v, a in zip(inputs, node.arguments, strict=False)
    )
    types = tuple(ir.Vector(result.type, length) for result in function.results)
    return ir.Map(inputs=accesses, function=function, span=node.span), types
