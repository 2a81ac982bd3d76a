# SPDX-License-Identifier: Apache-2.0
"""The command `hipress evidence`: what trainings have proved of codecs."""

from __future__ import annotations

from typing import Annotated

import typer

from hipress.secopa.commands.explained import explained

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
@explained
def evidence(
    optimizer: Annotated[
        str,
        typer.Option(
            metavar="KIND",
            help="sgd, momentum, adam, muon, lamb or unknown: the codecs that every kind with trainings clears.",
        ),
    ] = "unknown",
) -> None:
    """Show what trainings have proved of each codec for a kind of optimizer, and what codec="auto" may choose.

    The gap is the loss beyond that of bf16, as a part of what bf16 gains in the training. Its limits hold with 99.9 %.
    A codec is safe, or economic, if the limit of one task at least lies below the margin, and no mean gap is above it
    by more than its standard error.
    docs/convergence.md has every training.
    """
    from rich.console import Console

    from hipress.secopa.evidence.clearance import cleared, kinds_with_evidence, standings
    from hipress.secopa.evidence.document import read
    from hipress.secopa.evidence.optimizers import KINDS, kind_named
    from hipress.secopa.evidence.table import table_of

    kind, found = kind_named(optimizer), read()
    known = kinds_with_evidence(found)
    console = Console()
    # A file or a pipe has no width, so the table gets a fixed one.
    console = console if console.is_terminal else Console(width=120)
    console.print(table_of(standings(kind, found), f"{KINDS[kind]}, on {found.ranks} ranks, HiPress {found.version}"))
    if kind not in known:
        typer.echo(f"There are no trainings for this kind: a codec must be cleared for each of {', '.join(known)}.")
    tasks = {found.tasks[row.task] for row in found.rows if row.proves and kind in (row.optimizer, *_all(kind, known))}
    typer.echo(f"Trainings: {'; '.join(sorted(tasks))}.")
    for accuracy, margin in (("safe", found.safe), ("economy", found.economy)):
        codecs = ", ".join(cleared(kind, accuracy, found))
        typer.echo(f'codec="auto" with accuracy="{accuracy}" (a gap of {100 * margin:g} % at most): {codecs}')


def _all(kind: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """The kinds that count for a kind without trainings."""
    return () if kind in known else (kind,)
