# SPDX-License-Identifier: Apache-2.0
"""`hipress report`: a page about a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hipress.secopa.commands.explained import explained

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
@explained
def report(
    trace: Annotated[Path, typer.Argument(metavar="TRACE", help="What HIPRESS_TRACE or start_timeline() wrote.")],
    plan: Annotated[Path | None, typer.Option(metavar="FILE", help="The plan that the run had.")] = None,
    profile: Annotated[str | None, typer.Option(metavar="P", help="The profile that the plan was made from.")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Where the page goes.")] = Path(
        "report.html"
    ),
) -> None:
    """Write one page about a run: where a step's time went, what was sent, and whether the plan was right.

    The page needs no other file, no script and no network. Some ten steps are enough for a trace.
    """
    from hipress.secopa.document import write_text
    from hipress.secopa.plan import Plan
    from hipress.secopa.profile import read_profile
    from hipress.secopa.report.page import page
    from hipress.secopa.report.run import Run
    from hipress.secopa.report.trace import read_trace

    run = Run(
        read_trace(trace),
        None if plan is None else Plan.read(plan),
        None if profile is None else read_profile(profile),
    )
    write_text(output, page(run))
    typer.echo(
        f"{len(run.steps)} steps of {len(run.trace.ranks)} ranks, median {run.step_s * 1e3:.1f} ms; wrote {output}"
    )
