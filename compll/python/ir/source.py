# SPDX-License-Identifier: Apache-2.0
"""The text of a program, places in it, and the error for a wrong program."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from hipress.errors import InvalidArgument


@dataclass(frozen=True)
class Span:
    """A piece of source text. Lines and columns count from 1; `end_column` is the one after the last character."""

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True)
class Source:
    """A program's text, and the name that errors use for it (usually its path)."""

    name: str
    text: str

    def line(self, number: int) -> str:
        """Line `number`, tabs shown as single spaces so that the caret stands under the right character."""
        lines = self.text.split("\n")
        return lines[number - 1].rstrip("\r").replace("\t", " ") if 0 < number <= len(lines) else ""


#: The most characters of a line that an error shows, and how many of them stand before the place.
_LONGEST_LINE = 160
_SHOWN_BEFORE = 80
#: The most names that a hint lists.
_MOST_NAMES = 20


class CompileError(InvalidArgument):
    """The program is wrong. `file`, `line`, `column`, `message` and `hint` say where, what, and what to do."""

    def __init__(self, source: Source, span: Span, message: str, hint: str = "") -> None:
        self.file = source.name
        self.line = span.line
        self.column = span.column
        self.message = message
        self.hint = hint
        text = source.line(span.line)
        end = span.end_column if span.end_line == span.line else len(text) + 1
        # Of a long line, the error shows the part around the place.
        skipped = max(0, span.column - _SHOWN_BEFORE) if len(text) > _LONGEST_LINE else 0
        text = text[skipped : skipped + _LONGEST_LINE]
        column, end = span.column - skipped, min(end - skipped, len(text) + 1)
        marker = "^" + "~" * (end - column - 1)
        number = str(span.line)
        shown = [
            f"{source.name}:{span.line}:{span.column}: error: {message}",
            f"{number:>5} | {text}",
            f"{'':>5} | {' ' * (column - 1)}{marker}",
        ]
        if hint:
            shown.append(f"hint: {hint}")
        super().__init__("\n".join(shown))


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint that names the closest of `known`, or lists them all if none is close."""
    names = sorted(set(known))
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if close:
        return f"did you mean '{close[0]}'?"
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"known names: {', '.join(names[:_MOST_NAMES])}{more}" if names else ""
