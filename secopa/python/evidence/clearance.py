# SPDX-License-Identifier: Apache-2.0
"""Which codecs are cleared for a kind of optimizer.

A codec is cleared at a margin if trainings of one task at least prove that its loss is below the margin, and if on no
other task its mean loss is above the margin by more than its standard error. (At first the mean alone forbade: then a
task with a wide spread forbids by chance.) For a kind without trainings, and for an optimizer that nobody names, a
codec must be cleared for each kind that has trainings.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from hipress.errors import InvalidArgument
from hipress.secopa.evidence.document import Evidence, Row, read

Accuracy: TypeAlias = Literal["exact", "safe", "economy"]
ACCURACIES: tuple[str, ...] = get_args(Accuracy)
#: What needs no evidence, the most exact one first: values as they are, and as everybody sends them.
EXACT = ("none", "bf16")


@dataclass(frozen=True)
class Standing:
    """The verdict on a method for a kind of optimizer, over all tasks."""

    method: str
    is_codec: bool
    level: str
    """"safe", "economy", "loses" (on one task at least) or "not proved"."""
    rows: tuple[Row, ...]

    @property
    def error(self) -> float:
        """Of an average, the largest one of the tasks; infinite if it is not known."""
        return max((row.error for row in self.rows if not math.isnan(row.error)), default=math.inf)


def kinds_with_evidence(evidence: Evidence) -> tuple[str, ...]:
    """The kinds of optimizers that were trained with."""
    return tuple(dict.fromkeys(row.optimizer for row in evidence.rows if row.proves))


def standings(kind: str, evidence: Evidence | None = None) -> list[Standing]:
    """What the evidence says of every method for a kind of optimizer, the smallest error first."""
    evidence = read() if evidence is None else evidence
    kinds = kinds_with_evidence(evidence)
    by_kind = {each: _of_kind(each, evidence) for each in (kinds if kind not in kinds else (kind,))}
    methods = dict.fromkeys(method for each in by_kind.values() for method in each)
    found = [_strictest(method, [each.get(method) for each in by_kind.values()]) for method in methods]
    return sorted(found, key=lambda each: (not each.is_codec, each.error))


def cleared(kind: str, accuracy: str, evidence: Evidence | None = None) -> tuple[str, ...]:
    """The codecs that `codec="auto"` may choose, the most exact one first. Raises InvalidArgument."""
    if accuracy not in ACCURACIES:
        raise InvalidArgument(f"accuracy={accuracy!r} does not exist; choose {', '.join(ACCURACIES)}")
    levels = {"exact": (), "safe": ("safe",), "economy": ("safe", "economy")}[accuracy]
    found = (each.method for each in standings(kind, evidence) if each.is_codec and each.level in levels)
    return (*EXACT, *(codec for codec in found if codec not in EXACT))


def _of_kind(kind: str, evidence: Evidence) -> dict[str, Standing]:
    rows: dict[str, list[Row]] = {}
    for row in evidence.rows:
        if row.optimizer == kind and row.proves:
            rows.setdefault(row.method, []).append(row)
    return {
        method: Standing(method, each[0].is_codec, _level(each, evidence), tuple(each)) for method, each in rows.items()
    }


def _level(rows: Iterable[Row], evidence: Evidence) -> str:
    rows = list(rows)
    for level, margin in (("safe", evidence.safe), ("economy", evidence.economy)):
        if any(row.limit <= margin for row in rows) and all(row.gap - row.standard_error <= margin for row in rows):
            return level
    return "loses" if any(row.least > evidence.safe for row in rows) else "not proved"


def _strictest(method: str, of_kinds: list[Standing | None]) -> Standing:
    """Over kinds of optimizers, of which one may have no training with the method."""
    known = [each for each in of_kinds if each is not None]
    levels = {each.level for each in known} | ({"not proved"} if len(known) < len(of_kinds) else set())
    level = next(each for each in ("loses", "not proved", "economy", "safe") if each in levels)
    return Standing(method, known[0].is_codec, level, tuple(row for each in known for row in each.rows))
