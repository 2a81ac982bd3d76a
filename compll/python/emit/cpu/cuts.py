# SPDX-License-Identifier: Apache-2.0
"""The loop over a tile's elements, cut into several where something else has to happen for all elements at once.

A value that a later loop uses goes through an array of the tile.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

#: A line that Scope.variable() has written.
VARIABLE = re.compile(r"\[\[maybe_unused\]\] const (?P<type>\w+) (?P<name>[xb]\w+) = ")

#: The rest of a line that reads the element of an array, which no loop changes.
_IN_AN_ARRAY = re.compile(r"\w+\[i\];$")


@dataclass(frozen=True)
class LookUp:
    """Line number `line` is `value`, the element of a table at `places`; `table` looks up a tile's elements."""

    line: int
    table: str
    declaration: str
    type: str
    places: str
    value: str

    def text(self) -> list[str]:
        return [
            f"alignas(64) {self.type} s_{self.value}[kTile + kApart];",
            f"{self.table}(s_{self.places}, count, s_{self.value});",
        ]


def loops(lines: list[str], reads_from: int | None, look_ups: Iterable[LookUp]) -> list[str]:
    """Loops that compute the lines.

    From line `reads_from` on, lines read at computed places. A processor starts the reads that it finds in the few
    hundred instructions after the oldest read that waits. So nothing else should stand between reads.
    """
    by_line = {look.line: look for look in look_ups}
    if reads_from is None and not by_line:
        return loop(lines)
    parts: list[list[str]] = [[]]
    between: list[LookUp | None] = []
    for number, line in enumerate(lines):
        look = by_line.get(number)
        if look is not None or number == reads_from:
            parts.append([])
            between.append(look)
        if look is None:
            parts[-1].append(line)
    result: list[str] = []
    known: dict[str, str] = {}  # for each value of an earlier loop, the line that reads it again
    for number, part in enumerate(parts):
        text, later = "\n".join(part), "\n".join(line for other in parts[number + 1 :] for line in other)
        loaded = [line for name, line in known.items() if _uses(text, name)]
        stored = []
        for match in filter(None, map(VARIABLE.match, part)):
            name, type_ = match["name"], match["type"]
            known[name] = match.string if _IN_AN_ARRAY.match(match.string, match.end()) else _again(type_, name)
            is_place = any(look.places == name for look in by_line.values())
            if is_place or (known[name] != match.string and _uses(later, name)):
                result.append(f"alignas(64) {type_} s_{name}[kTile + kApart];")
                stored.append(f"s_{name}[i] = {name};")
        if part:
            result += loop([*loaded, *part, *stored])
        if number < len(between):
            look = between[number]
            if look is not None:
                result += look.text()
                known[look.value] = _again(look.type, look.value)
    return result


def loop(body: list[str]) -> list[str]:
    return ["#pragma GCC ivdep", "for (size_t i = 0; i < count; ++i) {", *(f"  {line}" for line in body), "}"]


def _again(type_: str, name: str) -> str:
    return f"const {type_} {name} = s_{name}[i];"


def _uses(text: str, name: str) -> bool:
    return re.search(rf"\b{name}\b", text) is not None
