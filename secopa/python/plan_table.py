# SPDX-License-Identifier: Apache-2.0
"""A plan as a table for the terminal."""

from __future__ import annotations

from rich.table import Table

from hipress.secopa.plan import Plan
from hipress.secopa.quantities import seconds, size


def table_of(plan: Plan) -> Table:
    """A line per decision."""
    table = Table(title=f"{plan.model or 'plan'}, {plan.world} ranks: {plan.made_by}", title_justify="left")
    for heading in ("gradient", "size", "codec", "topology", "K", "group", "predicted", "as it is", "because"):
        table.add_column(heading, justify="right" if heading in ("size", "K", "predicted", "as it is") else "left")
    for one in plan.decisions:
        table.add_row(
            one.name,
            size(4 * one.elements) if one.dtype == "float32" else f"{one.elements} {one.dtype}",
            one.codec,
            one.topology,
            str(one.partitions),
            one.group or "",
            "" if one.predicted_s is None else seconds(one.predicted_s),
            "" if one.predicted_uncompressed_s is None else seconds(one.predicted_uncompressed_s),
            one.reason,
        )
    return table
