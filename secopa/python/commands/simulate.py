# SPDX-License-Identifier: Apache-2.0
"""The command `hipress simulate`: predicts a step on other clusters."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hipress.errors import InvalidArgument
from hipress.secopa.commands.explained import explained

if TYPE_CHECKING:
    from hipress.secopa.profile.gradients import GradientSet
    from hipress.secopa.profile.profile import Profile
    from hipress.secopa.whatif.scenario import Scenario
    from hipress.secopa.whatif.simulate import SimulatedStep

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
@explained
def simulate(
    profile: Annotated[
        str, typer.Option(metavar="P", help="A file of `hipress profile`, or the name of a shipped profile.")
    ],
    model: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The gradients: JSON with release times, or lines. Default: the profile's gradients."
        ),
    ] = None,
    nodes: Annotated[
        str, typer.Option(metavar="N", help="Numbers of hosts, such as 4,8 or 2..1024 (doubling).")
    ] = "2..64",
    ranks_per_node: Annotated[int, typer.Option(metavar="L", help="Ranks on each host.")] = 1,
    bandwidth: Annotated[
        list[str] | None,
        typer.Option(metavar="RATE", help="Rate of the links, such as 10gbit. May be repeated. Default: as measured."),
    ] = None,
    latency: Annotated[
        str | None, typer.Option(metavar="TIME", help="Latency of the network, such as 20us. Default: as measured.")
    ] = None,
    codec: Annotated[
        list[str] | None,
        typer.Option(metavar="CODEC", help="A codec; may be repeated. Default: none, and all codecs of the profile."),
    ] = None,
    topology: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A topology; may be repeated. Default: ps and ring; with several ranks per host ps and hierarchical.",
        ),
    ] = None,
    backward: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Duration of backward, such as 200ms. Release times are scaled to it."),
    ] = None,
    forward: Annotated[
        str | None, typer.Option(metavar="TIME", help="Duration of forward. Default: half of backward.")
    ] = None,
    backward_threads: Annotated[
        int,
        typer.Option(
            metavar="T", help="Backward computes with T threads on the cores of each rank; 0: on an accelerator."
        ),
    ] = 0,
    one_machine: Annotated[
        bool, typer.Option("--one-machine", help="The hosts are emulated on one machine and share its cores.")
    ] = False,
    pointless: Annotated[
        bool, typer.Option("--pointless", help="Also find the rate of links from which on compression is pointless.")
    ] = False,
    coordinator: Annotated[
        bool, typer.Option("--coordinator", help="Also print the work of a coordinator of link rounds.")
    ] = False,
    as_json: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the rows to this file.")] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw the rows into this SVG file.")
    ] = None,
) -> None:
    """Simulate a step: its time, efficiency, bytes and memory for each number of hosts, network, codec and topology.

    The shortest step of each cluster is marked with *. All gradients have the same codec and topology and the engine's
    default number of partitions; `hipress plan` decides for each gradient.
    """
    from rich.console import Console

    from hipress.secopa.commands.progress import progress
    from hipress.secopa.models.suitability import takes
    from hipress.secopa.profile.document import write_text
    from hipress.secopa.profile.profile import read_profile
    from hipress.secopa.profile.quantities import parse_rate, parse_seconds
    from hipress.secopa.whatif.plot import plot as drawn
    from hipress.secopa.whatif.scenario import Scenario
    from hipress.secopa.whatif.simulate import Computing, UniformChoice, simulate_uniform
    from hipress.secopa.whatif.table import coordinator_line, table_of

    costs = read_profile(profile)
    gradients = _gradients(costs, model, None if backward is None else parse_seconds(backward))
    codecs = ["none", *costs.codec_names] if codec is None else codec
    several = ["ps", "hierarchical", "hierarchical(ring)"]
    topologies = topology or (["ps", "ring"] if ranks_per_node == 1 else several)
    latency_s = None if latency is None else parse_seconds(latency)
    computing = Computing(None if forward is None else parse_seconds(forward), backward_threads)
    scenarios = [
        Scenario(count, ranks_per_node, rate, latency_s, one_machine)
        for rate in ([None] if bandwidth is None else map(parse_rate, bandwidth))
        for count in _counts(nodes)
    ]
    rows = []
    with progress("hipress simulate") as stage:
        for scenario, one, name in product(scenarios, codecs, topologies):
            # A codec that the user named is an error; a default codec is left out.
            if (codec is None and not _can_have(costs, gradients, scenario, one)) or (
                topology is None and not takes(costs, one, name)
            ):
                continue
            stage(f"{one} over {name} on {scenario.world} ranks")
            rows.append(simulate_uniform(costs, gradients, scenario, UniformChoice(one, name), computing))
    title = f"{gradients.model or 'gradients'}, {costs.machine.text}"
    console = Console()
    # A file or a pipe has no width, so the table gets a fixed one.
    (console if console.is_terminal else Console(width=160)).print(table_of(rows, title))
    if coordinator:
        for row in _largest(rows):
            typer.echo(coordinator_line(row))
    if pointless:
        for line in _pointless(costs, gradients, scenarios, codecs, topologies):
            typer.echo(line)
    if as_json is not None:
        write_text(as_json, json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    if plot is not None:
        write_text(plot, drawn(rows, title))


def _gradients(profile: Profile, model: Path | None, backward_s: float | None) -> GradientSet:
    from hipress.secopa.profile.gradients import read_gradients

    found = profile.gradients if model is None else read_gradients(model)
    if found is None:
        raise InvalidArgument("expected --model FILE: the profile has no gradients of a model in it")
    return found if backward_s is None else found.with_backward(backward_s)


def _counts(text: str) -> list[int]:
    """The numbers of hosts in a text: "4,8", or "2..64" for 2, 4, 8, 16, 32, 64."""
    first, dots, last = text.partition("..")
    try:
        if not dots:
            return [int(word) for word in text.split(",")]
        count, most = int(first), int(last)
    except ValueError:
        raise InvalidArgument(f"--nodes {text}: expected numbers such as 4,8 or 2..1024") from None
    if not 1 <= count <= most:
        raise InvalidArgument(f"--nodes {text}: expected a range that begins at 1 or more and does not end before it")
    return [count * 2**power for power in range((most // count).bit_length())]


def _can_have(profile: Profile, gradients: GradientSet, scenario: Scenario, codec: str) -> bool:
    from hipress.secopa.models.suitability import objection

    return codec == "none" or objection(profile, codec, scenario.world, gradients.gradients) is None


def _largest(rows: Sequence[SimulatedStep]) -> list[SimulatedStep]:
    most = max(row.ranks for row in rows)
    fastest = max(row.bandwidth_bytes_per_s for row in rows)
    return [row for row in rows if row.ranks == most and row.bandwidth_bytes_per_s == fastest]


def _pointless(
    profile: Profile,
    gradients: GradientSet,
    scenarios: Sequence[Scenario],
    codecs: Sequence[str],
    topologies: Sequence[str],
) -> Iterator[str]:
    from hipress.secopa.profile.quantities import rate
    from hipress.secopa.whatif.simulate import POINTLESS, pointless_from

    compressing = [codec for codec in codecs if codec != "none"]
    if not compressing:
        raise InvalidArgument("--pointless: expected a codec besides none")
    # The search is over networks, so each number of hosts counts once.
    for scenario in {one.nodes: one for one in scenarios}.values():
        if scenario.nodes == 1:
            continue
        here = [codec for codec in compressing if _can_have(profile, gradients, scenario, codec)]
        found = pointless_from(profile, gradients, scenario, here, topologies)
        if found is None:
            yield f"{scenario.nodes} hosts: compressing saves more than {POINTLESS:.0%} of a step on any network"
        else:
            saves = f"compressing saves less than {POINTLESS:.0%} of a step"
            yield f"{scenario.nodes} hosts: {saves} with links of {rate(found)} or more"
