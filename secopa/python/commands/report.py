# SPDX-License-Identifier: Apache-2.0
"""The command `hipress report`: a page about a traced job."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hipress.secopa.commands.explained import explained

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
@explained
def report(
    trace: Annotated[
        Path, typer.Argument(metavar="TRACE", help="The trace that HIPRESS_TRACE or start_timeline() wrote.")
    ],
    plan: Annotated[Path | None, typer.Option(metavar="FILE", help="The plan of the run.")] = None,
    profile: Annotated[str | None, typer.Option(metavar="P", help="The profile of the plan.")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The file of the page.")] = Path(
        "report.html"
    ),
) -> None:
    """Write a page about a run: the shares of a step's time, the bytes sent, and the plan beside the measured times.

    The page needs no other file, no script and no network. A trace of about ten steps is enough.
    """
    from hipress.secopa.plan.text_format import read_plan
    from hipress.secopa.profile.document import write_text
    from hipress.secopa.profile.profile import read_profile
    from hipress.secopa.report.page import page
    from hipress.secopa.report.plan_fit import check_fit
    from hipress.secopa.report.run import Run
    from hipress.secopa.report.trace import read_trace

    run = Run(
        read_trace(trace),
        None if plan is None else read_plan(plan),
        None if profile is None else read_profile(profile),
    )
    check_fit(run)
    write_text(output, page(run))
    typer.echo(
        f"{len(run.steps)} steps of {len(run.trace.ranks)} ranks, median {run.step_s * 1e3:.1f} ms; wrote {output}"
    )
