# SPDX-License-Identifier: Apache-2.0
"""Limits on the size of a program. A larger program is refused before it costs time, memory or Python's stack."""

from __future__ import annotations

from typing import Any

from lark import Token, Tree

from hipress.compll.ir.source import CompileError, Source, Span

#: The longest program that comes with HiPress has 2,300 characters. One of this length is parsed in half a second.
MOST_CHARACTERS = 32_768
#: The most characters of a name or a number.
MOST_IN_A_WORD = 128
#: The deepest nesting of statements and of expressions. Each stage of the compiler calls itself for each level; 100
#: levels fit into Python's stack several times.
MOST_LEVELS = 100


def check_length(source: Source) -> None:
    """Raises CompileError at the first character beyond the limit."""
    if len(source.text) <= MOST_CHARACTERS:
        return
    before = source.text[:MOST_CHARACTERS]
    line, column = before.count("\n") + 1, MOST_CHARACTERS - (before.rfind("\n") + 1) + 1
    raise CompileError(
        source,
        Span(line, column, line, column + 1),
        f"this program is longer than {MOST_CHARACTERS} characters",
        "a codec is some twenty lines",
    )


def check_tree(source: Source, tree: Tree[Any]) -> None:
    """Raises CompileError at the first place that is nested too deeply, or at the first word that is too long."""
    ahead: list[tuple[Any, int]] = [(tree, 0)]
    while ahead:
        item, level = ahead.pop()
        if isinstance(item, Token):
            if len(item) > MOST_IN_A_WORD:
                raise CompileError(source, span_of(item), f"this word is longer than {MOST_IN_A_WORD} characters")
        elif isinstance(item, Tree):
            if level > MOST_LEVELS:
                raise CompileError(
                    source,
                    span_of(item),
                    f"this program is nested too deeply: more than {MOST_LEVELS} levels",
                    "give parts of it names",
                )
            ahead += [(child, level + 1) for child in reversed(item.children)]


def span_of(item: Tree[Any] | Token) -> Span:
    """The place of a piece of the parser's tree."""
    position: Any = item if isinstance(item, Token) else item.meta
    if getattr(position, "line", None) is None:  # an empty tree
        return Span(1, 1, 1, 1)
    return Span(position.line, position.column, position.end_line, position.end_column)
