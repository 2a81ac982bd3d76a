# SPDX-License-Identifier: Apache-2.0
"""The command `hipress plan`: makes a plan with the original's options, and shows, compares and checks plans."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hipress.errors import InvalidArgument
from hipress.secopa.commands.explained import explained

if TYPE_CHECKING:
    from hipress.secopa.plan.plan import Plan

app = typer.Typer(
    help="Decide for each gradient whether to compress it, with which codec, and in how many partitions.",
    add_completion=False,
    rich_markup_mode=None,
)
#: The profile that is used without --profile.
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
        typer.Option(
            metavar="NAME",
            help="An allowed topology, such as ps; may be repeated. Default: the topologies that suit the cluster.",
        ),
    ] = None,
    nnodes: Annotated[
        int | None, typer.Option("--nnodes", metavar="N", help="Number of ranks. Default: as in the profile.")
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(metavar="P", help=f"A file of `hipress profile`. Default: the published costs, {_PUBLISHED}."),
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
        typer.Option(metavar="NAME", help="search, independent or mergecomp. Default: depends on the model."),
    ] = None,
    codec: Annotated[
        list[str] | None,
        typer.Option(metavar="CODEC", help="An allowed codec; may be repeated. Default: all codecs of the profile."),
    ] = None,
    codec_for: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN=CODECS",
            help="Codecs of matching gradients, such as '*.bias=none' or 'embed*=onebit,tbq'. The first match counts.",
        ),
    ] = None,
    max_error: Annotated[
        float | None,
        typer.Option(metavar="E", help="Largest relative error of one encoding of all gradients together."),
    ] = None,
    max_memory: Annotated[
        float | None, typer.Option(metavar="MIB", help="Most memory of a rank for staging and codec states, in MiB.")
    ] = None,
    fusion_num: Annotated[
        int | None,
        typer.Option(metavar="N", help="Planner mergecomp: number of groups; 0: no groups."),
    ] = None,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="The plan's file: JSON if it ends with .json, else lines name,size,y|n,K."),
    ] = Path("SeCoPaPlan.txt"),
) -> None:
    """Make a plan.

    The options are those of the plan script that the authors of the paper released: hipress plan --input input.txt
    --topology PS --nnodes 4
    """
    if context.invoked_subcommand is not None:
        return
    if input is None:
        raise InvalidArgument(
            "expected --input FILE: the gradients to plan for (or gradients, show, diff, check; see --help)"
        )
    from hipress.secopa.commands.progress import progress
    from hipress.secopa.models.registry import make_model
    from hipress.secopa.plan.text_format import write_plan
    from hipress.secopa.planners.options import PlanningOptions
    from hipress.secopa.planners.planner import make_plan
    from hipress.secopa.profile.gradients import read_gradients
    from hipress.secopa.profile.profile import read_profile

    if profile is None:
        typer.echo(
            f"hipress: no --profile: the plan uses the published costs {_PUBLISHED}, which are of other machines",
            err=True,
        )
    costs = read_profile(_PUBLISHED if profile is None else profile)
    world = len(costs.ranks) if nnodes is None else _ranks(nnodes)
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
    found = read_gradients(input)
    with progress("hipress plan") as stage:
        stage(f"searching for {len(found.gradients)} gradients on {world} ranks")
        plan = make_plan(found, make_model(chosen, costs, world), options, planner)
    write_plan(plan, output)
    typer.echo(f"{_predicted(plan)}\nwrote {output}")


@app.command()
@explained
def gradients(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:FUNCTION",
            help="A function or class that makes the model, such as my_module:make_model; or a model.",
        ),
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="The file: JSON if it ends with .json, else lines name,number_of_float32."),
    ] = Path("model.json"),
) -> None:
    """Write the gradients of a model of PyTorch, TensorFlow or MXNet to a file for --input.

    The module is searched in the working folder first. The file has no release times; a script can measure them with
    hipress.torch.write_gradients().
    """
    from hipress.secopa.commands.named_model import gradients_of_named
    from hipress.secopa.profile.model_gradients import write_gradient_set
    from hipress.secopa.profile.quantities import size

    found = gradients_of_named(model)
    write_gradient_set(found, output)
    typer.echo(f"{found.model}: {len(found.gradients)} gradients, {size(found.bytes)}; wrote {output}")


@app.command()
@explained
def show(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A plan.")],
    codec: Annotated[str, typer.Option(metavar="CODEC", help="The codec of a plan in lines, which have none.")] = "tbq",
    nnodes: Annotated[int, typer.Option("--nnodes", metavar="N", help="Number of ranks of a plan in lines.")] = 1,
) -> None:
    """Show a plan: each decision and its reason."""
    from rich.console import Console

    from hipress.secopa.plan.table import table_of

    plan = _read(file, codec, nnodes)
    console = Console()
    # A file or a pipe has no width, so the table gets a fixed one.
    (console if console.is_terminal else Console(width=240)).print(table_of(plan))
    typer.echo(_predicted(plan))


@app.command()
@explained
def diff(
    one: Annotated[Path, typer.Argument(metavar="ONE")],
    other: Annotated[Path, typer.Argument(metavar="OTHER")],
    codec: Annotated[str, typer.Option(metavar="CODEC", help="The codec of plans in lines, which have none.")] = "tbq",
    nnodes: Annotated[int, typer.Option("--nnodes", metavar="N", help="Number of ranks of plans in lines.")] = 1,
) -> None:
    """Print the differences between two plans.

    The exit code is 1 if they differ, and 2 if a plan cannot be read.
    """
    from hipress.secopa.plan.difference import differences
    from hipress.secopa.profile.document import MalformedFile

    try:
        plans = _read(one, codec, nnodes), _read(other, codec, nnodes)
    except MalformedFile as error:
        # Exit code 1 means that the plans differ.
        raise InvalidArgument(str(error)) from None
    found = differences(*plans)
    for line in found:
        typer.echo(line)
    if found:
        raise typer.Exit(1)
    typer.echo("the plans are equal")


@app.command()
@explained
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A plan.")],
    input: Annotated[Path, typer.Option("--input", help="The gradients to use the plan with.")],
    nnodes: Annotated[int | None, typer.Option(metavar="N", help="The number of ranks to use the plan with.")] = None,
    codec: Annotated[str, typer.Option(metavar="CODEC", help="The codec of a plan in lines, which have none.")] = "tbq",
) -> None:
    """Check that a plan fits these gradients, and that its codecs and topologies exist.

    If not, the command prints the first difference and the exit code is 2. The exit code is 1 if a file holds no plan
    or no gradients.
    """
    from hipress.secopa.plan.check import check_plan
    from hipress.secopa.profile.gradients import read_gradients

    plan = _read(file, codec, 1 if nnodes is None else nnodes)
    check_plan(plan, read_gradients(input), nnodes)
    typer.echo(f"{file}: fits the {len(plan.decisions)} gradients of {input}")


def _read(file: Path, codec: str, world: int) -> Plan:
    from hipress.secopa.plan.text_format import TextPlanOptions, read_plan

    return read_plan(file, TextPlanOptions(codec=codec, world=_ranks(world)))


def _ranks(count: int) -> int:
    from hipress.secopa.plan.plan import MOST_RANKS

    if not 1 <= count <= MOST_RANKS:
        raise InvalidArgument(f"--nnodes {count}: expected 1 to {MOST_RANKS} ranks")
    return count


def _pattern(text: str) -> tuple[str, tuple[str, ...]]:
    pattern, equals, codecs = text.partition("=")
    if not pattern or not equals:
        raise InvalidArgument(f"--codec-for {text}: expected PATTERN=CODECS, such as '*.bias=none'")
    # Commas within parentheses separate a codec's options.
    return pattern, tuple(codec.strip() for codec in re.split(r",(?![^()]*\))", codecs))


def _predicted(plan: Plan) -> str:
    from hipress.secopa.profile.quantities import seconds

    if plan.predicted_step_s is None or plan.predicted_uncompressed_step_s is None:
        return plan.summary or plan.made_by
    return (
        f"{plan.summary}; a step on {plan.world} ranks: {seconds(plan.predicted_step_s)} predicted, "
        f"{seconds(plan.predicted_uncompressed_step_s)} with nothing compressed"
    )
