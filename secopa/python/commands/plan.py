# SPDX-License-Identifier: Apache-2.0
"""`hipress plan`: makes a plan, with the original's options; shows, compares and checks plans."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hipress.errors import InvalidArgument
from hipress.secopa.commands.explained import explained

if TYPE_CHECKING:
    from hipress.secopa.plan import Plan

app = typer.Typer(
    help="Decide, gradient by gradient, whether to compress it, with what, and in how many partitions.",
    add_completion=False,
    rich_markup_mode=None,
)
#: Where costs come from if nobody has measured them here.
_PUBLISHED = "sosp21-56g"


@app.callback(invoke_without_command=True)
@explained
def make(
    context: typer.Context,
    input: Annotated[
        Path | None,
        typer.Option("--input", help="The gradients: lines name,number_of_float32, or JSON with release times."),
    ] = None,
    topology: Annotated[
        list[str] | None,
        typer.Option(metavar="PS|RING", help="May be repeated: the planner chooses. Default: all that may pay."),
    ] = None,
    nnodes: Annotated[
        int | None, typer.Option("--nnodes", metavar="N", help="Ranks. Default: those of the profile.")
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(metavar="P", help=f"What `hipress profile` wrote. Default: the published costs, {_PUBLISHED}."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="timeline, paper or released. Default: timeline for a profile, released for published costs.",
        ),
    ] = None,
    planner: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="search, independent, mergecomp. Default: by model."),
    ] = None,
    codec: Annotated[
        list[str] | None, typer.Option(metavar="CODEC", help="Allowed; may be repeated. Default: all of the profile.")
    ] = None,
    codec_for: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN=CODECS",
            help="Codecs of gradients with such names: '*.bias=none', 'embed*=onebit,tbq'. The first match counts.",
        ),
    ] = None,
    max_error: Annotated[
        float | None, typer.Option(metavar="E", help="Relative error of all gradients together, of one encoding.")
    ] = None,
    max_memory: Annotated[
        float | None, typer.Option(metavar="MIB", help="Per rank, for staging and what codecs remember.")
    ] = None,
    fusion_num: Annotated[
        int | None,
        typer.Option(metavar="N", help="Planner mergecomp: merge into so many groups; 0: none."),
    ] = None,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="A .json file gets all; another one lines name,size,y|n,K."),
    ] = Path("SeCoPaPlan.txt"),
) -> None:
    """Make a plan.

    As the original's script was called: hipress plan --input input.txt --topology PS --nnodes 4
    """
    if context.invoked_subcommand is not None:
        return
    if input is None:
        raise InvalidArgument("expected --input FILE: the gradients to plan for (or show, diff, check; see --help)")
    from hipress.secopa.gradients import read_gradients
    from hipress.secopa.models.by_name import make_model
    from hipress.secopa.planner import make_plan
    from hipress.secopa.planning_options import PlanningOptions
    from hipress.secopa.profile import read_profile
    from hipress.secopa.text_plan import write_plan

    if profile is None:
        typer.echo(f"hipress: no --profile: costs are those published as {_PUBLISHED}, of other machines", err=True)
    costs = read_profile(_PUBLISHED if profile is None else profile)
    world = len(costs.ranks) if nnodes is None else nnodes
    if not world:
        raise InvalidArgument("expected --nnodes N: the profile does not say for how many ranks")
    options = PlanningOptions(
        codecs=None if codec is None else tuple(codec),
        codecs_for=tuple(_pattern(one) for one in codec_for or ()),
        topologies=tuple(one.lower() for one in topology or ()),
        max_relative_error=max_error,
        groups=fusion_num,
        max_memory_bytes=None if max_memory is None else int(max_memory * 2**20),
    )
    chosen = model or ("released" if profile is None else "timeline")
    plan = make_plan(read_gradients(input), make_model(chosen, costs, world), options, planner)
    write_plan(plan, output)
    typer.echo(f"{_predicted(plan)}\nwrote {output}")


@app.command()
@explained
def show(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A plan.")],
    codec: Annotated[str, typer.Option(metavar="CODEC", help="Of a plan in lines, which do not say.")] = "tbq",
    nnodes: Annotated[int, typer.Option(metavar="N", help="The same.")] = 1,
) -> None:
    """Show a plan: every decision and its reason."""
    from rich.console import Console

    from hipress.secopa.plan_table import table_of

    plan = _read(file, codec, nnodes)
    console = Console()
    # A file or a pipe has no width to fit in.
    (console if console.is_terminal else Console(width=240)).print(table_of(plan))
    typer.echo(_predicted(plan))


@app.command()
@explained
def diff(
    one: Annotated[Path, typer.Argument(metavar="ONE")],
    other: Annotated[Path, typer.Argument(metavar="OTHER")],
    codec: Annotated[str, typer.Option(metavar="CODEC", help="Of plans in lines, which do not say.")] = "tbq",
) -> None:
    """Say what two plans decide differently; the exit code is 1 if they do."""
    from hipress.secopa.plan_difference import differences

    found = differences(_read(one, codec, 1), _read(other, codec, 1))
    for line in found:
        typer.echo(line)
    if found:
        raise typer.Exit(1)
    typer.echo("both decide the same")


@app.command()
@explained
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A plan.")],
    input: Annotated[Path, typer.Option("--input", help="The gradients it is to be used with.")],
    nnodes: Annotated[int | None, typer.Option(metavar="N", help="Ranks it is to be used with.")] = None,
    codec: Annotated[str, typer.Option(metavar="CODEC", help="Of a plan in lines, which do not say.")] = "tbq",
) -> None:
    """Check that a plan is for these gradients, and that its codecs and topologies exist.

    The exit code is 2 otherwise, and the first difference is said.
    """
    from hipress.secopa.gradients import read_gradients
    from hipress.secopa.plan_check import check_plan

    plan = _read(file, codec, nnodes or 1)
    check_plan(plan, read_gradients(input), nnodes)
    typer.echo(f"{file}: fine for the {len(plan.decisions)} gradients of {input}")


def _read(file: Path, codec: str, world: int) -> Plan:
    from hipress.secopa.text_plan import TextPlanOptions, read_plan

    return read_plan(file, TextPlanOptions(codec=codec, world=world))


def _pattern(text: str) -> tuple[str, tuple[str, ...]]:
    pattern, equals, codecs = text.partition("=")
    if not pattern or not equals:
        raise InvalidArgument(f"--codec-for {text}: expected PATTERN=CODECS, such as '*.bias=none'")
    # Commas within parentheses separate a codec's options.
    return pattern, tuple(codec.strip() for codec in re.split(r",(?![^()]*\))", codecs))


def _predicted(plan: Plan) -> str:
    from hipress.secopa.quantities import seconds

    if plan.predicted_step_s is None or plan.predicted_uncompressed_step_s is None:
        return plan.summary or plan.made_by
    return (
        f"{plan.summary}; a step on {plan.world} ranks: {seconds(plan.predicted_step_s)} predicted, "
        f"{seconds(plan.predicted_uncompressed_step_s)} with nothing compressed"
    )
