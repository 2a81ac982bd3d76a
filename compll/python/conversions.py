# SPDX-License-Identifier: Apache-2.0
"""Conversions between scalar types: explicit in the IR, implicit in the language."""

from __future__ import annotations

from hipress.compll import ir
from hipress.compll.scope import Unit
from hipress.compll.source import Span

_RANK = {"bool": 0, "uint": 1, "int": 2, "float": 3, "double": 4}


def limits(type_: ir.Scalar) -> tuple[int, int]:
    """Smallest and largest value of an integer type (of any width: of 8 bits)."""
    if type_.kind == "bool":
        return 0, 1
    if type_.kind == "uint":
        return 0, (1 << (type_.bits or 8)) - 1
    return -(1 << 31), (1 << 31) - 1


def convert(unit: Unit, expr: ir.Expr, to: ir.Scalar, span: Span) -> ir.Expr:
    """`expr` as `to`. A constant that does not fit is an error; anything else converts when it runs."""
    if expr.type == to:
        return expr
    if isinstance(expr, ir.Const):
        # Converted from what was written, so that 0.1 is a double where a double is wanted.
        value = expr.value
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


def widens(source: ir.Scalar, to: ir.Scalar) -> bool:
    """Whether every value of `source` is one of `to`, or at least near one (int to float): what elements may do."""
    if source == to:
        return True
    if source.kind == "uint" and to.kind == "uint":
        return not to.width_key and (source.bits or 8) <= to.bits
    return _RANK[source.kind] < _RANK[to.kind]


def arithmetic_type(left: ir.Scalar, right: ir.Scalar) -> ir.Scalar:
    """The type two operands are computed in: double, float or int, the first that one of them has."""
    for wide in (ir.DOUBLE, ir.FLOAT):
        if wide in (left, right):
            return wide
    return ir.INT


def common_type(left: ir.Scalar, right: ir.Scalar) -> ir.Scalar:
    return left if left == right else arithmetic_type(left, right)


def truth(unit: Unit, expr: ir.Expr) -> ir.Expr:
    """`expr` as a condition; integers are true unless 0, floats must be compared."""
    if expr.type.kind in ("float", "double"):
        raise unit.error(expr.span, f"a condition cannot be a {expr.type}", "compare it with something: x != 0.0")
    return convert(unit, expr, ir.BOOL, expr.span)
