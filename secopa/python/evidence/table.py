# SPDX-License-Identifier: Apache-2.0
"""The evidence as a table for the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from hipress.secopa.evidence.clearance import Standing

_STYLES = {"safe": "green", "economy": "yellow", "loses": "red", "not proved": "dim"}


def table_of(found: Sequence[Standing], title: str) -> Table:
    """A row for each method."""
    table = Table(title=Text(title), title_justify="left")
    for head, side in (("method", "left"), ("", "left"), ("tasks", "right"), ("trainings", "right")):
        table.add_column(head, justify=side)  # type: ignore[arg-type]
    for head in ("largest gap", "smallest limit", "error of an average"):
        table.add_column(head, justify="right")
    for each in found:
        # Text, because rich interprets [brackets] in a string.
        table.add_row(
            Text(each.method),
            Text(each.level, style=_STYLES[each.level]),
            str(len({row.task for row in each.rows})),
            str(sum(row.trainings for row in each.rows)),
            _percent(max(row.gap for row in each.rows)),
            _percent(min(row.limit for row in each.rows)),
            f"{each.error:.2g}" if math.isfinite(each.error) else "",
        )
    return table


def _percent(share: float) -> str:
    return f"{100 * share:+.2f} %" if math.isfinite(share) else "NaN"
