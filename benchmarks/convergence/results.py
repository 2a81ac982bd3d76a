# SPDX-License-Identifier: Apache-2.0
"""The file with the results of the suite: a list with one row for each training, in the order of the cells' names.
While
ranks train, they add lines to a second file beside it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.convergence.cells import key_of

FILE = Path(__file__).parents[1] / "results" / "convergence.json"


def read(file: Path) -> list[dict[str, Any]]:
    """The rows; none if there is no file."""
    rows: list[dict[str, Any]] = json.loads(file.read_text()) if file.exists() else []
    return rows


def write(file: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Replaces the file. Of several rows of one cell the last one stays."""
    last = {key_of(row): row for row in rows}
    file.write_text("[\n" + ",\n".join(json.dumps(last[key]) for key in sorted(last)) + "\n]\n")


def read_lines(file: Path) -> list[dict[str, Any]]:
    """The rows that ranks have written so far. A line that is not whole, as a rank leaves it that is killed, is left
    out."""
    rows = []
    for line in file.read_text().splitlines() if file.exists() else ():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return rows
