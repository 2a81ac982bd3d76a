# SPDX-License-Identifier: Apache-2.0
"""The two halves of an encode function at agree(): before ranks have agreed, and after.

statistics(encode)   its message is the rank's own statistics; it writes no state
with_agreed(encode)  encodes; it reads the combined statistics as decode reads a message
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace

from hipress.compll import ir


def statistics(function: ir.Function) -> ir.Function:
    """The function whose message is this rank's statistics."""
    place, let = _agreed(function)
    before = tuple(statement for statement in function.body[:place] if not isinstance(statement, ir.WriteState))
    message = ir.WriteMessage(items=(ir.Vec(vector=let.name, span=let.span),), span=let.span)
    return _pruned(replace(function, body=(*before, let, message), summed=None))


def with_agreed(function: ir.Function) -> ir.Function:
    """The function that encodes with given statistics."""
    assert function.summed is not None
    place, let = _agreed(function)
    size = ir.Size(vector=ir.GRADIENT, type=ir.INT, span=let.span)
    blocks = ir.Call(function="blocks", arguments=(size, function.summed.block), type=ir.INT, span=let.span)
    field = ir.Field(name=let.name, type=let.type, length=blocks, span=let.span)
    read = ir.Extract(fields=(field,), span=let.span)
    return _pruned(replace(function, body=(*function.body[:place], read, *function.body[place + 1 :]), summed=None))


def _agreed(function: ir.Function) -> tuple[int, ir.Let]:
    assert function.summed is not None
    return next(
        (place, statement)
        for place, statement in enumerate(function.body)
        if isinstance(statement, ir.Let) and statement.name == function.summed.statistics
    )


def _pruned(function: ir.Function) -> ir.Function:
    """Without definitions that nothing uses: each would be computed."""
    kept: list[ir.Statement] = []
    used: set[str] = set()
    for statement in reversed(function.body):
        match statement:
            case ir.Let(name=name) if name not in used:
                continue
            case ir.LetMany(names=names) if used.isdisjoint(names):
                continue
            case ir.If(joins=joins) if used.isdisjoint(join.name for join in joins):
                continue
        kept.append(statement)
        used.update(_names(statement))
    return replace(function, body=tuple(reversed(kept)))


def _names(node: object) -> Iterator[str]:
    """All names in a statement, and some other words, which are no names."""
    if isinstance(node, str):
        yield node
    elif isinstance(node, tuple):
        for part in node:
            yield from _names(part)
    elif is_dataclass(node):
        for field in fields(node):
            yield from _names(getattr(node, field.name))
