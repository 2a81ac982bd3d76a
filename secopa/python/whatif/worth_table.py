# SPDX-License-Identifier: Apache-2.0
"""The answer of `hipress bench` as a table for the terminal."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from hipress.secopa.profile.quantities import seconds, size
from hipress.secopa.whatif.worth import Verdict, Worth

_STYLES = {Verdict.PAYS: "green", Verdict.LOSES: "red", Verdict.NEITHER: "yellow"}
_LEFT = ("codec", "topology", "verdict", "evidence")


def worth_table(worth: Worth) -> Table:
    """A row for each codec, in the order of the profile, between the uncompressed step and the plan."""
    hosts = f"{worth.hosts} host" + ("s" if worth.hosts > 1 else "")
    # Text, because rich interprets [brackets] in a string.
    title = Text(f"{worth.model}, {worth.ranks} ranks on {hosts}, {worth.machine}", style="table.title")
    table = Table(title=title, title_justify="left")
    evidence = ("evidence",) if worth.allowed is not None else ()
    for heading in (
        *("codec", "topology", "step", "times as fast", "to other hosts", "CPU", "error", "verdict"),
        *evidence,
    ):
        table.add_column(heading, justify="left" if heading in _LEFT else "right")
    for row in worth.rows:
        if row is worth.planned:
            table.add_section()
        table.add_row(
            Text(row.name),
            Text(row.topology),
            seconds(row.step_s),
            f"{row.times_as_fast:.2f}",
            size(row.sent_bytes),
            seconds(row.cpu_s),
            "-" if row.relative_error is None else f"{row.relative_error:.2f}",
            Text(row.verdict.value, style=_STYLES.get(row.verdict, "")),
            *(Text(row.evidence) for _ in evidence),
        )
    return table
