# SPDX-License-Identifier: Apache-2.0
"""A plan as a table for the terminal."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from hipress.secopa.plan.plan import Plan
from hipress.secopa.profile.quantities import seconds, size


def table_of(plan: Plan) -> Table:
    """A row for each decision."""
    # Text, because rich interprets [brackets] in a string.
    title = Text(f"{plan.model or 'plan'}, {plan.world} ranks: {plan.made_by}", style="table.title")
    table = Table(title=title, title_justify="left")
    for heading in ("gradient", "size", "codec", "topology", "K", "group", "predicted", "uncompressed", "reason"):
        table.add_column(heading, justify="right" if heading in ("size", "K", "predicted", "uncompressed") else "left")
    for one in plan.decisions:
        table.add_row(
            Text(one.name),
            size(4 * one.elements) if one.dtype == "float32" else f"{one.elements} {one.dtype}",
            Text(one.codec),
            Text(one.topology),
            str(one.partitions),
            Text(one.group or ""),
            "" if one.predicted_s is None else seconds(one.predicted_s),
            "" if one.predicted_uncompressed_s is None else seconds(one.predicted_uncompressed_s),
            Text(one.reason),
        )
    return table
