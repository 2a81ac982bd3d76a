# SPDX-License-Identifier: Apache-2.0
"""The command `hipress bench`: does compression pay on these ranks?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hipress.errors import InvalidArgument
from hipress.secopa.commands.explained import explained

if TYPE_CHECKING:
    from hipress.secopa.profile.gradients import GradientSet
    from hipress.secopa.profile.profile import Profile
    from hipress.secopa.whatif.worth import Allowed, Worth

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
@explained
def bench(
    model: Annotated[
        str,
        typer.Option(
            metavar="MODEL",
            help="bert-base, gpt2, resnet50 or vgg19; a file of gradients; or MODULE:FUNCTION, which makes a model.",
        ),
    ] = "resnet50",
    codec: Annotated[
        list[str] | None,
        typer.Option(metavar="CODEC", help='A codec such as "dgc(ratio=0.01)"; may be repeated. Default: all codecs.'),
    ] = None,
    optimizer: Annotated[
        str,
        typer.Option(
            metavar="KIND",
            help="sgd, momentum, adam, muon or lamb: only codecs that trainings with it have cleared are recommended, "
            "beside codecs of --codec. Default: the codecs that are cleared for all of them.",
        ),
    ] = "unknown",
    accuracy: Annotated[
        str, typer.Option(metavar="LEVEL", help="exact, safe or economy: see hipress evidence.")
    ] = "safe",
    backward: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Duration of backward, such as 200ms; it hides transfers."),
    ] = None,
    seconds: Annotated[float, typer.Option(metavar="S", help="Approximate duration of the measurement.")] = 60.0,
    profile: Annotated[
        str | None, typer.Option(metavar="FILE", help="Use this profile; then one process is enough.")
    ] = None,
    as_json: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the answer as JSON.")] = None,
    picture: Annotated[Path, typer.Option(metavar="FILE", help="The file of the picture.")] = Path("bench.png"),
    save_profile: Annotated[Path | None, typer.Option(metavar="FILE", help="Keep the measured profile.")] = None,
    save_plan: Annotated[Path | None, typer.Option(metavar="FILE", help="Keep the plan, for plan=FILE.")] = None,
) -> None:
    """Tell whether compression pays on these ranks, in about two minutes.

    All ranks run the command: hipress run -np 4 hipress bench --model resnet50, or another launcher.

    It measures a profile, simulates a step with every codec, makes a plan, and prints a table and a sentence of advice:
    times, and what trainings have proved of each codec. The plan has only codecs that are cleared, or that you name.

    A shipped model has no duration of backward of this machine: give --backward, or no transfer counts as hidden.
    """
    from hipress.secopa.commands.measured import measured
    from hipress.secopa.commands.progress import progress
    from hipress.secopa.profile.profile import read_profile
    from hipress.secopa.whatif.worth import worth_of

    if not seconds > 0:
        raise InvalidArgument(f"--seconds {seconds:g}: expected more than 0")
    allowed = _allowed(optimizer, accuracy, codec)
    gradients = _gradients(model, backward)
    costs = (
        measured("hipress bench", tuple(codec) if codec else None, seconds, gradients, fewest_ranks=2)
        if profile is None
        else _with_codecs(read_profile(profile), codec)
    )
    if costs is None:
        return
    with progress("hipress bench") as stage:
        worth = worth_of(costs, gradients, stage, allowed)
    _tell(worth, picture)
    if as_json is not None:
        _write_json(worth, as_json)
    if save_profile is not None:
        costs.write(save_profile)
    if save_plan is not None:
        worth.plan.write(save_plan)


def _allowed(optimizer: str, accuracy: str, codecs: list[str] | None) -> Allowed:
    from hipress.secopa.evidence.clearance import EXACT, cleared, standings
    from hipress.secopa.evidence.optimizers import kind_named
    from hipress.secopa.whatif.worth import Allowed

    kind = kind_named(optimizer)
    may = cleared(kind, accuracy) if codecs is None else tuple(codecs)
    exact = dict.fromkeys((*EXACT, "fp16"), "exact")
    return Allowed(kind, may, {each.method: each.level for each in standings(kind)} | exact)


def _gradients(model: str, backward: str | None) -> GradientSet:
    from hipress.secopa.profile.gradients import read_gradients
    from hipress.secopa.profile.known_models import is_known, known_model
    from hipress.secopa.profile.quantities import parse_seconds

    if is_known(model):
        # The times are of another machine: only their order and proportions hold here.
        found = known_model(model)
        found = found.with_backward(0.0) if backward is None else found
    elif Path(model).exists():
        found = read_gradients(model)
    elif ":" in model:
        from hipress.secopa.commands.named_model import gradients_of_named

        found = gradients_of_named(model)
    else:
        found = known_model(model)  # its error names the valid values
    return found if backward is None else found.with_backward(parse_seconds(backward))


def _with_codecs(profile: Profile, codecs: list[str] | None) -> Profile:
    if codecs is None:
        return profile
    return profile.with_codecs(codecs)


def _tell(worth: Worth, picture: Path) -> None:
    from rich.console import Console

    from hipress.secopa.whatif.advice import advice
    from hipress.secopa.whatif.worth_picture import can_draw, draw_worth
    from hipress.secopa.whatif.worth_table import worth_table

    console = Console()
    # A file or a pipe has no width, so the table gets a fixed one.
    (console if console.is_terminal else Console(width=160)).print(worth_table(worth))
    sentence = advice(worth)
    typer.echo(sentence)
    if can_draw():
        draw_worth(worth, sentence, picture)
        typer.echo(f"wrote {picture}")
    else:
        typer.echo("no picture: matplotlib is not installed; pip install matplotlib")


def _write_json(worth: Worth, path: Path) -> None:
    from dataclasses import asdict

    from hipress.secopa.profile.document import write_text
    from hipress.secopa.whatif.advice import advice

    content = asdict(worth) | {"plan": json.loads(worth.plan.to_json()), "advice": advice(worth)}
    write_text(path, json.dumps(content, indent=1) + "\n")
