# SPDX-License-Identifier: Apache-2.0
"""Builds HTML and SVG; text and attributes are escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


class Markup(str):
    """Text that is markup and needs no escaping."""


def element(tag: str, *children: str, **attributes: str | float) -> Markup:
    """An element. `class_` becomes the attribute class, `stroke_width` stroke-width; numbers get one decimal."""
    said = "".join(f' {_name(name)}="{_value(value)}"' for name, value in attributes.items())
    return Markup(f"<{tag}{said}>{''.join(map(text, children))}</{tag}>")


def text(value: str) -> Markup:
    """Escapes text that is not markup."""
    return value if isinstance(value, Markup) else Markup(escape(value))


def joined(parts: Iterable[str]) -> Markup:
    """Concatenates the parts."""
    return Markup("".join(map(text, parts)))


def table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Iterable[int] = ()) -> Markup:
    """A table. `numbers`: the columns to align on the right."""
    right = set(numbers)

    def cells(tag: str, row: Sequence[str]) -> Markup:
        return joined(
            element(tag, cell, class_="number") if index in right else element(tag, cell)
            for index, cell in enumerate(row)
        )

    body = joined(element("tr", cells("td", row)) for row in rows)
    return element("table", element("thead", element("tr", cells("th", head))), element("tbody", body))


def _name(name: str) -> str:
    return name.rstrip("_").replace("_", "-")


def _value(value: str | float) -> str:
    if isinstance(value, str):
        return escape(value)
    return f"{value:.1f}".removesuffix(".0")
