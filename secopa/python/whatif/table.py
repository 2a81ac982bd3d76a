# SPDX-License-Identifier: Apache-2.0
"""Simulated steps as a table for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from hipress.secopa.profile.quantities import rate, seconds, size
from hipress.secopa.whatif.simulate import SimulatedStep

_LEFT = ("codec", "topology")


def table_of(rows: Sequence[SimulatedStep], title: str) -> Table:
    """A row per codec and topology, a section per cluster with its shortest step marked."""
    # Text, because rich interprets [brackets] in a string.
    table = Table(title=Text(title, style="table.title"), title_justify="left", caption_justify="left")
    for heading in ("nodes", "ranks", "links", "codec", "topology", "step", "efficiency", "sent", "CPU", "memory"):
        table.add_column(heading, justify="left" if heading in _LEFT else "right")
    shortest: dict[tuple[int, float], float] = {}
    for row in rows:
        cluster = (row.ranks, row.bandwidth_bytes_per_s)
        shortest[cluster] = min(row.step_s, shortest.get(cluster, row.step_s))
    before: tuple[int, float] | None = None
    for row in rows:
        cluster = (row.ranks, row.bandwidth_bytes_per_s)
        if before not in (None, cluster):
            table.add_section()
        before = cluster
        table.add_row(
            str(row.nodes),
            str(row.ranks),
            rate(row.bandwidth_bytes_per_s),
            Text(row.codec),
            Text(row.topology),
            seconds(row.step_s) + (" *" if row.step_s == shortest[cluster] else "  "),
            "–" if row.efficiency is None else f"{row.efficiency:.0%}",
            size(row.sent_bytes),
            seconds(row.cpu_s),
            size(row.memory_bytes),
        )
    return table


def coordinator_line(row: SimulatedStep) -> str:
    """The cost of a coordinator of link rounds."""
    asked = f"with HIPRESS_COORDINATOR=rank0, {row.codec} over {row.topology} on {row.ranks} ranks"
    if not row.questions:
        return f"{asked}: no questions, as each rank has one link or none"
    busy = row.coordinator_s / row.step_s
    return (
        f"{asked}: {row.questions} questions per step, {seconds(row.coordinator_s)} of a processor of rank 0 "
        f"({busy:.0%} of the step)"
    )
