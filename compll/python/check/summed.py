# SPDX-License-Identifier: Apache-2.0
"""Codecs whose encoded values are summed: agree() and add() belong together, and say what the message is."""

from __future__ import annotations

from typing import cast

from hipress.compll import ir
from hipress.compll.check.scope import Unit
from hipress.compll.ir.source import CompileError, Source
from hipress.compll.ir.summed import Agreement, Summed

_WRITE = "write compressed = concat(greatest, add(level, params.levels))"


def summed(unit: Unit, statements: list[ir.Statement]) -> Summed | None:
    """What an encode function says about sums; None: its encoded values are not summed."""
    agreed, added = unit.agreed, unit.added
    if agreed is None and added is None:
        return None
    if added is None:
        assert agreed is not None
        raise unit.error(agreed.span, "ranks agree, and no part of the message is added", _WRITE)
    if agreed is None:
        raise unit.error(
            added.span,
            "the ranks' levels have no common scale",
            "let ranks agree on it: agree(reduce_blocks(...), max)",
        )
    let = statements[agreed.statement]
    assert isinstance(let, ir.Let)
    message = next(statement for statement in statements if isinstance(statement, ir.WriteMessage))
    if [item.vector if isinstance(item, ir.Vec) else "" for item in message.items] != [let.name, added.vector]:
        raise unit.error(
            message.span, "the message that ranks add is what they agree on, then the levels, and nothing else", _WRITE
        )
    return Summed(
        statistics=let.name,
        agreement=cast(Agreement, agreed.how),
        block=agreed.block,
        levels=added.vector,
        most=added.most,
    )


def check_decode(decode: ir.Function, source: Source) -> None:
    """Decode reads the sum of the levels where one rank's levels are."""
    extract = next(statement for statement in decode.body if isinstance(statement, ir.Extract))
    found = [f"{field.type}" for field in extract.fields]
    if found != ["float*", "int8*"]:
        raise CompileError(
            source,
            extract.span,
            "decode reads another message than the one that ranks add",
            "write extract(compressed, float greatest[blocks(gradient.size, params.block)], int8 level[gradient.size])",
        )
