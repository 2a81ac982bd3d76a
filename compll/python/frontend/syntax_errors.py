# SPDX-License-Identifier: Apache-2.0
"""Errors of the parser. The parser knows which tokens it would accept; the error says what to write."""

from __future__ import annotations

import re

from lark import Token
from lark.exceptions import UnexpectedInput

from hipress.compll.ir.source import CompileError, Source, Span

_SHOWN = {
    "SEMICOLON": "';'",
    "RPAR": "')'",
    "LPAR": "'('",
    "RBRACE": "'}'",
    "LBRACE": "'{'",
    "RSQB": "']'",
    "LSQB": "'['",
    "COMMA": "','",
    "EQUAL": "'='",
    "COLON": "':'",
    "MORETHAN": "'>'",
    "LESSTHAN": "'<'",
    "NAME": "a name",
    "NUMBER": "a number",
    "TYPE_NAME": "a type",
    "UINT": "a type",
    "AMPERSAND": "'&'",
}
_C_TYPES = {
    "uint": "write the width: uint<4>, or uint4",
    "uint32": "32 bits are an int32, with a sign",
    "half": "16 bits of a float are a uint16: bitcast<int32>(x) >> 16 is a bfloat16, for example",
    "size_t": "sizes are int32",
    "float32": "it is called float",
    "char": "bytes are uint8",
    "auto": "write the type out",
    "const": "every name is assigned once, so all are constant",
}
_INTEGERS = "the integer types are uint1, uint2, uint4, uint8, uint16, int4, int8 and int32"


def explain(source: Source, error: UnexpectedInput) -> CompileError:
    """The CompileError for what lark found."""
    token = getattr(error, "token", None)
    expected = set(getattr(error, "expected", None) or getattr(error, "allowed", None) or ())
    if not isinstance(token, Token):  # no token begins with this character
        line, column = max(error.line, 1), max(error.column, 1)
        character = source.line(line)[column - 1 : column]
        word = re.match(r"\w+", source.line(line)[column - 1 :])
        if word is None:
            return CompileError(source, Span(line, column, line, column + 1), f"unexpected character {character!r}")
        return _unexpected_word(source, Span(line, column, line, column + word.end()), word.group(), expected)
    if token.type == "$END":
        lines = source.text.rstrip().split("\n")
        end = Span(len(lines), len(lines[-1]) + 1, len(lines), len(lines[-1]) + 2)
        return CompileError(source, end, "the program ends before this statement or block does", _wanted(expected))
    span = Span(token.line or 1, token.column or 1, token.end_line or 1, token.end_column or 2)
    before = _word_before(source, span)
    hint = _INTEGERS if re.fullmatch(r"u?int\d+", before) else ""
    hint = _C_TYPES.get(before, hint)
    if hint:
        after = len(source.line(span.line)[: span.column - 1].rstrip()) + 1
        start = Span(span.line, max(1, after - len(before)), span.line, after)
        return CompileError(source, start, f"there is no type '{before}'", hint)
    return CompileError(source, span, f"unexpected '{_shortened(token)}'", _wanted(expected))


def _unexpected_word(source: Source, span: Span, word: str, expected: set[str]) -> CompileError:
    if word in ("for", "while", "do", "goto"):
        return CompileError(
            source, span, f"there are no loops: '{word}'", "say what happens to each element: map, reduce, filter"
        )
    return CompileError(source, span, f"unexpected '{_shortened(word)}'", _wanted(expected))


def _shortened(word: str) -> str:
    return word if len(word) <= 40 else f"{word[:40]}…"


def _word_before(source: Source, span: Span) -> str:
    words = source.line(span.line)[: span.column - 1].replace("(", " ").replace(",", " ").split()
    return words[-1] if words else ""


def _wanted(expected: set[str]) -> str:
    shown = sorted({_SHOWN[name] for name in expected if name in _SHOWN})
    # After an expression nearly every operator may follow. More likely, the token that ends the expression is missing.
    ends = [text for text in shown if text in ("';'", "')'", "']'", "','")]
    if "PLUS" in expected and ends:
        return f"expected {' or '.join(ends)} here"
    if not shown or len(shown) > 5:
        return ""
    return f"expected {' or '.join(shown)} here"
