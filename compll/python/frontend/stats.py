# SPDX-License-Identifier: Apache-2.0
"""Lengths of programs, counted as in the paper's table: lines of logic and of functions, operators, integration."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from hipress.compll.frontend import syntax as s
from hipress.compll.frontend.parser import parse
from hipress.compll.ir.operators import OPERATORS
from hipress.compll.ir.source import Source

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


@dataclass(frozen=True)
class Stats:
    """Numbers of lines, without blank lines and comments.

    `functions` counts the lines of named functions and of lambdas longer than a line, `params` those of param blocks,
    `logic` all other lines. `operators` is the number of different operators. `integration` counts lines that a user
    writes in another language to use the codec in a framework."""

    name: str
    logic: int
    functions: int
    params: int
    operators: int
    integration: int = 0


def count(text: str, name: str) -> Stats:
    """The numbers for a program. Raises CompileError if it cannot be parsed."""
    file = parse(Source(name, text))
    bare = _COMMENT.sub(lambda match: "\n" * match.group().count("\n"), text)
    code = {number for number, line in enumerate(bare.split("\n"), 1) if line.strip()}
    params: set[int] = set()
    functions: set[int] = set()
    used = set()
    for node in _walk(file):
        if isinstance(node, s.ParamBlock):
            params |= _lines(node)
        elif (isinstance(node, s.Lambda) and len(_lines(node)) > 1) or (isinstance(node, s.Function) and node.results):
            functions |= _lines(node) | _lines(getattr(node, "body", node))
        elif isinstance(node, s.Call) and node.name in OPERATORS:
            used.add(node.name)
        elif isinstance(node, s.Random | s.Extract):
            used.add(type(node).__name__.lower())
    logic = code - params - functions
    return Stats(name, len(logic), len(functions & code), len(params & code), len(used))


def _lines(node: s.Syntax) -> set[int]:
    return set(range(node.span.line, node.span.end_line + 1))


def _walk(node: Any) -> Iterator[Any]:
    yield node
    for field in fields(node):
        value = getattr(node, field.name)
        for item in value if isinstance(value, tuple) else (value,):
            if is_dataclass(item):
                yield from _walk(item)
