# SPDX-License-Identifier: Apache-2.0
"""The evidence: a file in the package, which benchmarks/convergence/evidence.py makes from the suite's trainings."""

from __future__ import annotations

import functools
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("evidence.json")


@dataclass(frozen=True)
class Row:
    """What the trainings of one task show of a method for one kind of optimizer, beside bf16."""

    optimizer: str
    """The kind: see optimizers.py."""
    task: str
    method: str
    """The text of a codec, or the name of an optimizer that belongs to one."""
    is_codec: bool
    trainings: int
    gap: float
    """The mean loss beyond that of bf16, as a part of what bf16 gains; infinite if a training ended in NaN."""
    limit: float
    """The upper limit of the gap; not a number without proof."""
    least: float
    """The lower limit."""
    error: float
    """vNMSE of an average; not a number if it was not measured."""

    @property
    def standard_error(self) -> float:
        """Of the mean gap; the limits are 3.09 of them away."""
        return 0.0 if math.isinf(self.gap) else (self.limit - self.gap) / 3.09

    @property
    def proves(self) -> bool:
        """Whether there were trainings enough for limits."""
        return not math.isnan(self.limit)


@dataclass(frozen=True)
class Evidence:
    """All rows, and how they were made."""

    version: str
    """Of HiPress."""
    ranks: int
    safe: float
    """The largest limit of a gap without measured loss."""
    economy: float
    """The largest one of a small loss."""
    tasks: dict[str, str]
    """Titles, by name."""
    rows: tuple[Row, ...]


@functools.cache
def read(file: Path = FILE) -> Evidence:
    """The evidence of the package."""
    found = json.loads(file.read_text())
    rows = tuple(Row(**{name: _number(value) for name, value in row.items()}) for row in found.pop("rows"))
    return Evidence(**found, rows=rows)


def _number(value: Any) -> Any:
    """JSON has neither infinity nor "not a number"."""
    return {"inf": math.inf, None: math.nan}.get(value, value) if value is None or value == "inf" else value
