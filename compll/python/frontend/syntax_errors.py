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
    "SHARED": "'shared'",
}
_HALF = "16 bits of a float are a uint16: bitcast<int32>(x) >> 16 is a bfloat16, for example"
_SMALL_FLOAT = "8 bits of a float are a uint8; the built-in codec fp8_e4m3 computes them"
_WIDE = "32 bits are an int32, with a sign"
_C_TYPES = {
    "uint": "write the width: uint<4>, or uint4",
    **dict.fromkeys(("uint32", "uint32_t", "unsigned", "signed"), _WIDE),
    **dict.fromkeys(("bfloat16", "bf16"), _HALF),
    **dict.fromkeys(("half", "fp16"), "it is called float16"),
    **dict.fromkeys(("float8", "fp8"), _SMALL_FLOAT),
    **dict.fromkeys(("long", "int64", "int64_t"), "the widest integer type is int32"),
    "size_t": "sizes are int32",
    "float32": "it is called float",
    "float64": "it is called double",
    **dict.fromkeys(("char", "byte", "uint8_t"), "bytes are uint8"),
    "bit": "bits are uint1",
    "auto": "write the type out",
    "const": "every name is assigned once, so all are constant",
}
_NAMED = (*(f"uint{bits}" for bits in (1, 2, 3, 4, 5, 6, 7, 8, 12, 16)), "int4", "int8", "int32")
_INTEGERS = "the integer types are uint1 to uint8, uint12, uint16, int4, int8 and int32"


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
    return _no_type(source, span) or CompileError(source, span, f"unexpected '{_shortened(token)}'", _wanted(expected))


def _unexpected_word(source: Source, span: Span, word: str, expected: set[str]) -> CompileError:
    if word in ("for", "while", "do", "goto"):
        return CompileError(
            source, span, f"there are no loops: '{word}'", "say what happens to each element: map, reduce, filter"
        )
    return _no_type(source, span) or CompileError(source, span, f"unexpected '{_shortened(word)}'", _wanted(expected))


def type_hint(word: str) -> str:
    """What to write in place of a type of another language; "" if the word is not known as one."""
    return _C_TYPES.get(word, _INTEGERS if re.fullmatch(r"u?int\d+(_t)?", word) and word not in _NAMED else "")


def _no_type(source: Source, span: Span) -> CompileError | None:
    """The error for a type of another language: at the token, before it, or in parentheses before it, as in a cast."""
    line, at = source.line(span.line), span.column - 1
    for pattern in (r"\w+$", r"(\w+)\s+$", r"(?<!\w)\(\s*(\w+)\s*\*?\s*\)\s*$", r"(\w+)\s*$"):
        # The first pattern is for a token that the lexer has cut: of uint9 it makes uint and 9.
        rest = re.match(r"\w*", line[at:]) if pattern == r"\w+$" else None
        head = line[: at + rest.end()] if rest else line[:at]
        found = re.search(pattern, head)
        if found is None:
            continue
        group = found.lastindex or 0
        word = found.group(group)
        hint = type_hint(word)
        if hint:
            where = Span(span.line, found.start(group) + 1, span.line, found.end(group) + 1)
            return CompileError(source, where, f"there is no type '{_shortened(word)}'", hint)
    return None


def _shortened(word: str) -> str:
    return word if len(word) <= 40 else f"{word[:40]}…"


def _wanted(expected: set[str]) -> str:
    shown = sorted({_SHOWN[name] for name in expected if name in _SHOWN})
    # After an expression nearly every operator may follow. More likely, the token that ends the expression is missing.
    ends = [text for text in shown if text in ("';'", "')'", "']'", "','")]
    if "PLUS" in expected and ends:
        return f"expected {' or '.join(ends)} here"
    if not shown or len(shown) > 5:
        return ""
    return f"expected {' or '.join(shown)} here"
