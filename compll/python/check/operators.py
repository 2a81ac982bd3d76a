# SPDX-License-Identifier: Apache-2.0
"""Calls of operators: the rule of each operator checks its arguments and gives the type of its result."""

from __future__ import annotations

from collections.abc import Callable

from hipress.compll import ir
from hipress.compll.check.scope import Scope, VectorRef
from hipress.compll.frontend import syntax as s
from hipress.compll.ir.operators import OPERATORS

Result = ir.Expr | VectorRef
Rule = Callable[[s.Call, Scope], Result]

#: The rules by the operators' names; operators/table.py fills it.
RULES: dict[str, Rule] = {}


def lower(node: s.Call, scope: Scope) -> Result:
    """The result of an operator whose name is in OPERATORS."""
    usage = OPERATORS[node.name]
    if not usage.fewest <= len(node.arguments) <= usage.most:
        raise scope.unit.error(
            node.span, f"'{node.name}' does not take {len(node.arguments)} arguments", f"write {usage.text}"
        )
    return RULES[node.name](node, scope)
