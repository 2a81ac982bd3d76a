# SPDX-License-Identifier: Apache-2.0
"""Bar figures: the parts of a whole, and pairs of predicted and measured values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hipress.secopa.report.markup import Markup, element, joined

_WIDTH, _LEFT, _RIGHT, _ROW = 1100.0, 330.0, 145.0, 32.0


@dataclass(frozen=True)
class Part:
    """A part of a whole."""

    label: str
    value: float
    kind: str
    """The CSS class of the colour."""


def stacked(parts: Sequence[Part], name: str) -> Markup:
    """One bar, divided by shares. A part that is wide enough shows its label."""
    whole = sum(part.value for part in parts) or 1.0
    drawn: list[str] = []
    x = 0.0
    for part in parts:
        width = part.value / whole * _WIDTH
        said = f"{part.label}: {part.value / whole:.0%}"
        drawn.append(element("rect", element("title", said), x=x, y=0, width=width, height=36, class_=part.kind))
        if width > 7.5 * len(said):
            drawn.append(element("text", said, x=x + 8, y=23, class_="inside"))
        x += width
    return element("svg", joined(drawn), viewBox=f"0 0 {_WIDTH:.0f} 36", role="img", id=name)


@dataclass(frozen=True)
class Comparison:
    """A predicted and a measured value."""

    label: str
    predicted: float
    measured: float
    said: str
    """The text with both values."""


def compared(rows: Sequence[Comparison], name: str) -> Markup:
    """Two bars per comparison; the upper one is predicted."""
    largest = max((max(row.predicted, row.measured) for row in rows), default=0.0) or 1.0
    scale = (_WIDTH - _LEFT - _RIGHT) / largest
    drawn: list[str] = []
    for index, row in enumerate(rows):
        top = index * _ROW
        drawn.append(element("text", _shortened(row.label), x=_LEFT - 8, y=top + 17, text_anchor="end"))
        for offset, value, kind in ((2.0, row.predicted, "predicted"), (14.0, row.measured, "measured")):
            bar = element("title", f"{row.label}: {row.said}")
            drawn.append(
                element("rect", bar, x=_LEFT, y=top + offset, width=max(1.0, value * scale), height=11, class_=kind)
            )
        end = _LEFT + max(row.predicted, row.measured) * scale
        drawn.append(element("text", row.said, x=end + 8, y=top + 17))
    return element(
        "svg", joined(drawn), viewBox=f"0 0 {_WIDTH:.0f} {max(1, len(rows)) * _ROW:.0f}", role="img", id=name
    )


def _shortened(label: str, most: int = 44) -> str:
    return label if len(label) <= most else "…" + label[-(most - 1) :]
