# SPDX-License-Identifier: Apache-2.0
"""Which operators and statements use each vector of a function."""

from __future__ import annotations

from hipress.compll import ir
from hipress.compll.passes.vectors import expressions, parts


class Uses:
    """The uses of each vector. A sorted or scattered vector with few uses need not exist as a whole."""

    def __init__(self, function: ir.Function) -> None:
        self.by_rank: set[str] = set()  # vectors of which single elements are read
        self.whole: dict[str, list[ir.Operator | ir.Statement]] = {}
        self._statements(function.body)

    def _statements(self, body: tuple[ir.Statement, ...]) -> None:
        for statement in body:
            match statement:
                case ir.Let() | ir.LetMany():
                    if isinstance(statement.value, ir.Expr):
                        self._expr(statement.value)
                    else:
                        self._operator(statement.value)
                case ir.If():
                    self._expr(statement.condition)
                    self._statements(statement.yes)
                    self._statements(statement.no)
                    for join in statement.joins:
                        self._use(join.yes, statement)
                        self._use(join.no, statement)
                case ir.WriteState() | ir.WriteGradient():
                    self._use(statement.vector, statement)
                case ir.WriteMessage():
                    for item in statement.items:
                        if isinstance(item, ir.Vec):
                            self._use(item.vector, statement)
                        else:
                            self._expr(item)
                case ir.Require():
                    self._expr(statement.condition)
                case ir.Extract():
                    for part in statement.fields:
                        if part.length is not None:
                            self._expr(part.length)

    def _use(self, vector: str, by: ir.Operator | ir.Statement) -> None:
        self.whole.setdefault(vector, []).append(by)

    def _expr(self, expr: ir.Expr) -> None:
        for part in parts(expr):
            if isinstance(part, ir.Index):
                self.by_rank.add(part.vector)

    def _operator(self, op: ir.Operator) -> None:
        for vector in op.vectors():
            self._use(vector, op)
        for expr in op.scalars():
            self._expr(expr)
        for function in op.functions():
            for expr in expressions(function):
                if isinstance(expr, ir.Index):
                    self._use(expr.vector, op)
