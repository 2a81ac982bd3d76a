# SPDX-License-Identifier: Apache-2.0
"""Conversions between scalar types: explicit in the IR, implicit in the language."""

from __future__ import annotations

from hipress.compll import ir
from hipress.compll.check.scope import Unit
from hipress.compll.ir.expressions import FLOAT16, limits
from hipress.compll.ir.source import Span

#: Rounds to infinity: half a unit of the last place above the largest float16.
_BEYOND_FLOAT16 = 65520


def convert(unit: Unit, expr: ir.Expr, to: ir.Scalar, span: Span) -> ir.Expr:
    """`expr` as `to`. A constant that does not fit is an error; any other value is converted at run time."""
    if expr.type == to:
        return expr
    if isinstance(expr, ir.Const):
        # Converted from the text of the constant: 0.1 becomes the double 0.1, not the float rounded to a double.
        value = expr.value
        if to == FLOAT16 and abs(value) >= _BEYOND_FLOAT16:
            raise unit.error(span, f"{value} does not fit in {to}", f"{to} holds -65504 to 65504")
        if to.kind in ("float", "double"):
            return ir.Const(value=float(value), type=to, span=expr.span)
        low, high = limits(to)
        if to.kind != "bool":
            if value != value or not low <= value <= high:
                raise unit.error(span, f"{value} does not fit in {to}", f"{to} holds {low} to {high}")
            if value != int(value):
                raise unit.error(span, f"{value} is not an integer, but {to} is needed", f"write ({to}) {value}")
            if not to.width_key:
                return ir.Const(value=int(value), type=to, span=expr.span)
    return ir.Cast(operand=expr, type=to, span=span)


def arithmetic_type(left: ir.Scalar, right: ir.Scalar) -> ir.Scalar:
    """The type of an operation: double if an operand is double, else float if one is float, else int."""
    for wide in (ir.DOUBLE, ir.FLOAT):
        if wide.kind in (left.kind, right.kind):
            return wide
    return ir.INT


def common_type(left: ir.Scalar, right: ir.Scalar) -> ir.Scalar:
    return left if left == right else arithmetic_type(left, right)


def truth(unit: Unit, expr: ir.Expr) -> ir.Expr:
    """`expr` as a condition. An integer is true unless it is 0; a float must be compared with another value."""
    if expr.type.kind in ("float", "double"):
        raise unit.error(expr.span, f"a condition cannot be a {expr.type}", "compare it with something: x != 0.0")
    return convert(unit, expr, ir.BOOL, expr.span)
