# SPDX-License-Identifier: Apache-2.0
"""From types as a program writes them to types of the IR, and the widths that uint<expr> can have."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

from hipress.compll import ir
from hipress.compll.check import expressions as check_expressions
from hipress.compll.check.scope import Scope, Unit
from hipress.compll.frontend import syntax as s
from hipress.compll.frontend.syntax_errors import type_hint
from hipress.compll.ir.expressions import FLOAT16, TRIT, limits
from hipress.compll.ir.source import Span
from hipress.compll.reference.evaluate import evaluate_static

#: The widths that uint<expr> can have.
WIDTHS = (1, 2, 3, 4, 5, 6, 7, 8)
#: The types that a program can name.
NAMED: dict[str, ir.Scalar] = {
    "bool": ir.BOOL,
    "int": ir.INT,
    "int32": ir.INT,
    "float": ir.FLOAT,
    "double": ir.DOUBLE,
    "float16": FLOAT16,
    "trit": TRIT,
    "int4": ir.Scalar("int", 4),
    "int8": ir.Scalar("int", 8),
    **{f"uint{bits}": ir.Scalar("uint", bits) for bits in (*WIDTHS, 12, 16)},
}
_UNKNOWN_LENGTH = "?"
#: The most combinations of parameters' values that a width is computed for.
_MOST_CHOICES = 4096


def resolve(name: s.TypeName, scope: Scope) -> ir.Type:
    """The type that `name` writes. The type does not give a vector's length: its key is "?"."""
    element = resolve_scalar(name, scope)
    if name.vector and element == ir.BOOL:
        raise scope.unit.error(name.span, "there are no vectors of bool", "use uint1")
    return ir.Vector(element, _UNKNOWN_LENGTH) if name.vector else element


def resolve_scalar(name: s.TypeName, scope: Scope) -> ir.Scalar:
    """The element type."""
    unit = scope.unit
    if name.width is None:
        if name.name not in NAMED:
            raise unit.error(name.span, f"there is no type '{name.name}'", type_hint(name.name))
        return NAMED[name.name]
    width = check_expressions.scalar(name.width, scope)
    for value in _possible(width, unit, name.span):
        if value not in WIDTHS:
            raise unit.error(
                name.span, f"there is no uint of {value} bits", "uint<e> has 1 to 8 bits; uint12 and uint16 have more"
            )
    if not _params(width, unit, name.span):
        return ir.Scalar("uint", int(evaluate_static(width, {})))
    return ir.Scalar("uint", 0, unit.key(width), width)


def _possible(width: ir.Expr, unit: Unit, span: Span) -> list[int]:
    """All values that the expression can have."""
    names = sorted(_params(width, unit, span))
    if isinstance(width, ir.ParamRef) and unit.params[width.name].domain is None:
        # A parameter without a range can be any width.
        unit.params[width.name] = replace(unit.params[width.name], domain=ir.Domain(values=WIDTHS))
    choices = []
    for name in names:
        domain, (low, high) = unit.params[name].domain, limits(unit.params[name].type)
        if domain is None and high - low <= 1:
            domain = ir.Domain(values=(low, high))
        if domain is None or (domain.values is None and not domain.high - domain.low <= 255):
            raise unit.error(span, f"'{name}' can have too many values for a width", "give it a set: in {1, 2, 4, 8}")
        if domain.values is not None:
            choices.append(list(domain.values))
        else:
            choices.append([v for v in range(math.floor(domain.low), math.ceil(domain.high) + 1) if v in domain])
    if math.prod(map(len, choices)) > _MOST_CHOICES:
        raise unit.error(span, f"{', '.join(names)} have too many values together for a width", "use fewer parameters")
    return [int(evaluate_static(width, dict(zip(names, some, strict=True)))) for some in itertools.product(*choices)]


def _params(expr: ir.Expr, unit: Unit, span: Span) -> set[str]:
    match expr:
        case ir.Const():
            return set()
        case ir.ParamRef():
            return {expr.name}
        case ir.Unary() | ir.Cast():
            return _params(expr.operand, unit, span)
        case ir.Binary():
            return _params(expr.left, unit, span) | _params(expr.right, unit, span)
        case ir.Select():
            return set().union(*(_params(part, unit, span) for part in (expr.condition, expr.yes, expr.no)))
        case _:
            raise unit.error(span, "a width is computed from parameters and constants only")
