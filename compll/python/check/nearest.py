# SPDX-License-Identifier: Apache-2.0
"""nearest(table, x): a search in a table of constants, as expressions that need no branch.

The result is the number of middles below x; a middle lies between two neighbours of the table. The search has one of
three forms, which give the same result: a comparison with each middle if there are few; one look-up by the upper bits
of x and one comparison, if these bits tell the middles apart; or a search by halves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hipress.compll import ir
from hipress.compll.check import expressions as check_expressions
from hipress.compll.check.conversions import convert
from hipress.compll.check.scope import Scope, Unit, VectorRef
from hipress.compll.check.tables import definition, values_of
from hipress.compll.frontend import syntax as s
from hipress.compll.ir.source import Span

#: The most middles with which x is compared one by one.
_FEW = 8
#: The most elements of the table by which the upper bits of x are looked up.
_MOST_LOOKED_UP = 4096
# Names of tables that the compiler makes end so. No name of a program has a dot.
_MIDDLES, _FIRST = ".middles", ".first"

Floats = NDArray[np.float32]


def nearest(node: s.Call, scope: Scope) -> ir.Expr:
    """The number of the table's element that is nearest to x; of two, the lower one. 0 for NaN."""
    unit, span = scope.unit, node.span
    if len(node.arguments) != 2:
        raise unit.error(span, f"'nearest' takes 2 arguments, not {len(node.arguments)}", "write nearest(table, x)")
    table = check_expressions.lower(node.arguments[0], scope)
    let = unit.tables.get(table.name) if isinstance(table, VectorRef) else None
    if let is None or values_of(let).dtype != np.float32:
        raise unit.error(
            node.arguments[0].span, "nearest searches a table of floats", "write table float x[4] = {...};"
        )
    middles = _middles(let, node, unit)
    given = convert(unit, check_expressions.scalar(node.arguments[1], scope), ir.FLOAT, node.arguments[1].span)
    search = _Search(scope, span, let.name, middles)
    x = search.named(given)
    shift = _telling_shift(middles)
    if len(middles) <= _FEW:
        return search.one_by_one(x)
    return search.by_halves(x) if shift is None else search.by_bits(x, shift)


def _middles(let: ir.Let, node: s.Call, unit: Unit) -> Floats:
    """The values between neighbours of the table, rounded once."""
    values = values_of(let).astype(np.float64)
    where = node.arguments[0].span
    if len(values) < 2:
        raise unit.error(where, "nearest searches a table of 2 elements or more")
    falls = np.flatnonzero(np.diff(values) <= 0)
    if len(falls):
        what = f"element {falls[0] + 1} of '{let.name}' is not greater than element {falls[0]}"
        raise unit.error(where, what, "nearest searches an increasing table")
    return np.asarray((values[1:] + values[:-1]) / 2, np.float32)


def _telling_shift(middles: Floats) -> int | None:
    """By how many bits a float is shifted so that no two middles have the same upper bits; None if that is no way."""
    if middles[0] <= 0:
        return None
    bits = middles.view(np.int32)
    for shift in range(30, -1, -1):
        upper = bits >> shift
        if (np.diff(upper) > 0).all():
            return shift if int(upper[-1]) - int(upper[0]) < _MOST_LOOKED_UP else None
    return None


@dataclass(frozen=True)
class _Search:
    """The expressions of one call of nearest()."""

    scope: Scope
    span: Span
    table: str
    middles: Floats

    def one_by_one(self, x: ir.Expr) -> ir.Expr:
        found: ir.Expr = self.whole(0)
        for middle in self.middles.tolist():
            found = self.plus(found, self.above(x, self.real(middle), 1))
        return self.named(found)

    def by_halves(self, x: ir.Expr) -> ir.Expr:
        """The greatest float fills the middles up to a power of two less one, so that every half has its middle.

        Only infinity is above it. (NVRTC does not take infinity for a constant.)
        """
        count = len(self.middles)
        size = (1 << count.bit_length()) - 1
        fill = [float(np.finfo(np.float32).max)] * (size - count)
        middles = self.made(_MIDDLES, ir.FLOAT, [*self.middles.tolist(), *fill])
        found: ir.Expr = self.whole(0)
        step = (size + 1) // 2
        while step:
            middle = self.element(middles, self.plus(found, self.whole(step - 1)), ir.FLOAT)
            found = self.named(self.plus(found, self.above(x, middle, step)))
            step //= 2
        return self.named(self.call("min", found, self.whole(count)))

    def by_bits(self, x: ir.Expr, shift: int) -> ir.Expr:
        """Every middle is above 0, and the bits of a negative value are a negative integer.

        GCC would make branches of a float's choice with a constant. The loop over elements would not be vectorised.
        """
        upper = self.middles.view(np.int32) >> shift
        first = np.searchsorted(upper, np.arange(int(upper[0]), int(upper[-1]) + 1)).tolist()
        middles, starts = self.made(_MIDDLES, ir.FLOAT, self.middles.tolist()), self.made(_FIRST, ir.INT, first)
        bits = ir.Bitcast(operand=x, type=ir.INT, span=self.span)
        place = self.binary("-", self.binary(">>", bits, self.whole(shift)), self.whole(int(upper[0])))
        least = self.call("max", place, self.whole(0))
        found = self.named(self.element(starts, self.call("min", least, self.whole(len(first) - 1)), ir.INT))
        known = ir.Cast(operand=self.compared("==", x, x), type=ir.INT, span=self.span)
        above = self.above(x, self.element(middles, found, ir.FLOAT), 1)
        return self.named(self.binary("*", self.plus(found, above), known))

    # Expressions

    def made(self, ending: str, type_: ir.Scalar, values: list[float]) -> str:
        """A table that the compiler makes for the program's table; its name."""
        unit, name = self.scope.unit, self.table + ending
        if name not in unit.tables:
            made = definition(name, type_, tuple(values), s.Syntax(self.span))
            unit.tables[name] = made
            unit.lengths[name] = str(len(values))
        unit.tables_read.add(name)
        return name

    def named(self, value: ir.Expr) -> ir.Var:
        name = self.scope.let("searched", value.type, value, self.span)
        return ir.Var(name=name, type=value.type, span=self.span)

    def whole(self, value: int) -> ir.Const:
        return ir.Const(value=value, type=ir.INT, span=self.span)

    def real(self, value: float) -> ir.Const:
        return ir.Const(value=value, type=ir.FLOAT, span=self.span)

    def element(self, vector: str, index: ir.Expr, type_: ir.Scalar) -> ir.Index:
        return ir.Index(vector=vector, index=index, type=type_, span=self.span)

    def above(self, x: ir.Expr, middle: ir.Expr, step: int) -> ir.Expr:
        """`step` if x is above the middle, else 0."""
        one = ir.Cast(operand=self.compared(">", x, middle), type=ir.INT, span=self.span)
        return one if step == 1 else self.binary("*", one, self.whole(step))

    def compared(self, operator: str, left: ir.Expr, right: ir.Expr) -> ir.Expr:
        return ir.Binary(operator=operator, left=left, right=right, type=ir.BOOL, span=self.span)

    def plus(self, left: ir.Expr, right: ir.Expr) -> ir.Expr:
        return self.binary("+", left, right)

    def binary(self, operator: str, left: ir.Expr, right: ir.Expr) -> ir.Expr:
        return ir.Binary(operator=operator, left=left, right=right, type=ir.INT, span=self.span)

    def call(self, function: str, left: ir.Expr, right: ir.Expr) -> ir.Expr:
        return ir.Call(function=function, arguments=(left, right), type=left.type, span=self.span)
