# SPDX-License-Identifier: Apache-2.0
"""A row of the table of operators: all that the compiler knows about one operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hipress.compll import ir
from hipress.compll.check.operators import RULES, Rule
from hipress.compll.emit.elements import ELEMENTS, Element
from hipress.compll.emit.target import SinkLowering
from hipress.compll.emit.targets import TARGETS
from hipress.compll.ir.operators import OPERATORS, Usage
from hipress.compll.passes import plan
from hipress.compll.passes.operators import PLANNING, Planning
from hipress.compll.reference.operators import MEANINGS, Meaning


@dataclass(frozen=True)
class Row:
    """`usage` is a call as errors show it. The operator's name stands before the parenthesis."""

    usage: str
    #: The types: checks the arguments of a call and gives the result. Without it, a program cannot call the operator.
    rule: Rule | None
    #: The operator's node in the IR, which says how long the result is. Without it, the operator becomes other nodes.
    node: type[ir.Operator] | None = None
    #: What the operator means, in NumPy.
    meaning: Meaning | None = None
    #: The steps and loops that the operator becomes.
    planning: Planning | None = None
    #: For an operator whose elements are computed where they are used: the text of one element, for all targets.
    element: Element | None = None
    #: For an operator that needs a loop of its own: what the loop feeds, and how each target does that.
    sink: type[plan.Sink] | None = None
    lowering: Mapping[str, SinkLowering] = field(default_factory=dict)
    #: The fewest and the most arguments, where the usage has dots.
    arguments: tuple[int, int] | None = None

    @property
    def name(self) -> str:
        return self.usage.partition("(")[0]


def install(rows: tuple[Row, ...]) -> None:
    """Tells each stage of the compiler its part of the rows."""
    for row in rows:
        if row.rule is not None:
            arguments = row.arguments or (row.usage.count(",") + 1,) * 2
            OPERATORS[row.name] = Usage(row.usage, *arguments)
            RULES[row.name] = row.rule
        if row.node is None:
            continue
        _put(MEANINGS, row.node, row.meaning)
        _put(PLANNING, row.node, row.planning)
        _put(ELEMENTS, row.node, row.element)
        for target, lowering in row.lowering.items():
            assert row.sink is not None, row.name
            TARGETS[target].sinks[row.sink] = lowering


def _put(parts: dict[type[ir.Operator], Any], node: type[ir.Operator], part: Any) -> None:
    if part is not None:
        parts[node] = part
