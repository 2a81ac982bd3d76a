# SPDX-License-Identifier: Apache-2.0
"""Draws simulated steps over the number of hosts as SVG: a panel per network, a line per codec and topology."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from hipress.secopa.profile.quantities import rate, seconds
from hipress.secopa.whatif.simulate import SimulatedStep

_WIDTH, _HEIGHT, _LEFT, _TOP, _BELOW = 420, 300, 80, 40, 50
#: Colours of the codecs, which colour-blind readers can tell apart; the dashes show the topology.
_COLOURS = ("#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_DASHES = ("none", "8 4", "2 4", "12 4 2 4")


def plot(rows: Sequence[SimulatedStep], title: str) -> str:
    """The SVG text. Both axes are logarithmic, and all panels have the same axes."""
    networks = list(dict.fromkeys(row.bandwidth_bytes_per_s for row in rows))
    nodes = sorted({row.nodes for row in rows})
    low, high = _decades([row.step_s for row in rows])
    panels = [
        _panel([row for row in rows if row.bandwidth_bytes_per_s == network], index, (nodes, low, high), rows)
        for index, network in enumerate(networks)
    ]
    width = len(networks) * (_WIDTH + _LEFT) + 20
    legend, legend_height = _legend(rows)
    height = _TOP + _HEIGHT + _BELOW + legend_height + 20
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            'font-family="sans-serif" font-size="12">',
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
            f'<text x="{_LEFT}" y="18" font-size="14">{escape(title)}</text>',
            *panels,
            legend,
            "</svg>\n",
        ]
    )


def _decades(values: Sequence[float]) -> tuple[float, float]:
    """The powers of ten that enclose the values."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def _panel(
    rows: Sequence[SimulatedStep],
    index: int,
    axes: tuple[list[int], float, float],
    all_rows: Sequence[SimulatedStep],
) -> str:
    nodes, low, high = axes
    left = _LEFT + index * (_WIDTH + _LEFT)
    first, last = math.log2(nodes[0]), math.log2(nodes[-1])

    def x(count: int) -> float:
        return left + (math.log2(count) - first) / ((last - first) or 1) * _WIDTH

    def y(step_s: float) -> float:
        return _TOP + (high - math.log10(step_s)) / (high - low) * _HEIGHT

    parts = [f'<text x="{left}" y="{_TOP - 6}">links of {escape(rate(rows[0].bandwidth_bytes_per_s))}</text>']
    for decade in range(int(low), int(high) + 1):
        at = y(10.0**decade)
        parts.append(f'<line x1="{left}" x2="{left + _WIDTH}" y1="{at:.1f}" y2="{at:.1f}" stroke="#dddddd"/>')
        parts.append(f'<text x="{left - 6}" y="{at + 4:.1f}" text-anchor="end">{seconds(10.0**decade)}</text>')
    for count in nodes:
        parts.append(f'<text x="{x(count):.1f}" y="{_TOP + _HEIGHT + 18}" text-anchor="middle">{count}</text>')
    parts.append(f'<text x="{left + _WIDTH / 2}" y="{_TOP + _HEIGHT + 36}" text-anchor="middle">nodes</text>')
    for codec, topology in _lines(all_rows):
        points = [(x(row.nodes), y(row.step_s)) for row in rows if (row.codec, row.topology) == (codec, topology)]
        drawn = " ".join(f"{at:.1f},{height:.1f}" for at, height in points)
        parts.append(f'<polyline points="{drawn}" fill="none" {_stroke(codec, topology, all_rows)}/>')
    return "\n".join(parts)


def _lines(rows: Sequence[SimulatedStep]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((row.codec, row.topology) for row in rows))


def _stroke(codec: str, topology: str, rows: Sequence[SimulatedStep]) -> str:
    codecs = list(dict.fromkeys(row.codec for row in rows))
    topologies = list(dict.fromkeys(row.topology for row in rows))
    colour = _COLOURS[codecs.index(codec) % len(_COLOURS)]
    dash = _DASHES[topologies.index(topology) % len(_DASHES)]
    return f'stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"'


def _legend(rows: Sequence[SimulatedStep]) -> tuple[str, int]:
    top = _TOP + _HEIGHT + _BELOW + 10
    parts = []
    for index, (codec, topology) in enumerate(_lines(rows)):
        at = top + 18 * index
        parts.append(f'<line x1="{_LEFT}" x2="{_LEFT + 40}" y1="{at}" y2="{at}" {_stroke(codec, topology, rows)}/>')
        parts.append(f'<text x="{_LEFT + 48}" y="{at + 4}">{escape(codec)}, {escape(topology)}</text>')
    return "\n".join(parts), 18 * len(_lines(rows))
