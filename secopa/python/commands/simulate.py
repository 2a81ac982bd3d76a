# SPDX-License-Identifier: Apache-2.0
"""`hipress simulate`: what a step would take on clusters that nobody has at hand."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hipress.errors import InvalidArgument
from hipress.secopa.commands.explained import explained

if TYPE_CHECKING:
    from hipress.secopa.gradients import GradientSet
    from hipress.secopa.profile import Profile
    from hipress.secopa.scenario import Scenario
    from hipress.secopa.what_if import SimulatedWay

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
@explained
def simulate(
    profile: Annotated[str, typer.Option(metavar="P", help="What `hipress profile` wrote, or the name of one.")],
    model: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The gradients: JSON with release times, or lines. Default: those in the profile."
        ),
    ] = None,
    nodes: Annotated[str, typer.Option(metavar="N", help="Such as 4,8 or 2..1024 (doubling).")] = "2..64",
    ranks_per_node: Annotated[int, typer.Option(metavar="L", help="Ranks on each node.")] = 1,
    bandwidth: Annotated[
        list[str] | None, typer.Option(metavar="RATE", help="Of links: 10gbit. May be repeated. Default: as measured.")
    ] = None,
    latency: Annotated[
        str | None, typer.Option(metavar="TIME", help="Of the network: 20us. Default: as measured.")
    ] = None,
    codec: Annotated[
        list[str] | None, typer.Option(metavar="CODEC", help="May be repeated. Default: none, and all of the profile.")
    ] = None,
    topology: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="May be repeated. Default: ps and ring, or what suits several per node."),
    ] = None,
    backward: Annotated[
        str | None, typer.Option(metavar="TIME", help="Of backward: 200ms. Release times are scaled to it.")
    ] = None,
    forward: Annotated[
        str | None, typer.Option(metavar="TIME", help="Of the forward pass. Default: half of backward.")
    ] = None,
    backward_threads: Annotated[
        int,
        typer.Option(metavar="T", help="Backward computes with T threads on the ranks' cores; 0: on an accelerator."),
    ] = 0,
    one_machine: Annotated[
        bool, typer.Option("--one-machine", help="The nodes are emulated on one machine, and share its cores.")
    ] = False,
    pointless: Annotated[
        bool, typer.Option("--pointless", help="Also find the network with which compression is pointless.")
    ] = False,
    coordinator: Annotated[
        bool, typer.Option("--coordinator", help="Also say what a coordinator of rounds would have to do.")
    ] = False,
    as_json: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the rows there.")] = None,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Draw the rows there, as SVG.")] = None,
) -> None:
    """Simulate a step: its time, efficiency, bytes, and memory, per number of nodes, network, codec and topology.

    The shortest step of each cluster is marked with *. All gradients travel the same way, in as many partitions as the
    engine makes by itself; `hipress plan` decides for each.
    """
    from rich.console import Console

    from hipress.secopa.document import write_text
    from hipress.secopa.profile import read_profile
    from hipress.secopa.quantities import parse_rate, parse_seconds
    from hipress.secopa.scenario import Scenario
    from hipress.secopa.what_if import Computing, Way, simulate_way
    from hipress.secopa.what_if_plot import plot as drawn
    from hipress.secopa.what_if_table import coordinator_line, table_of

    costs = read_profile(profile)
    gradients = _gradients(costs, model, None if backward is None else parse_seconds(backward))
    codecs = ["none", *costs.codecs] if codec is None else codec
    several = ["ps", "hierarchical", "hierarchical(ring)"]
    topologies = topology or (["ps", "ring"] if ranks_per_node == 1 else several)
    latency_s = None if latency is None else parse_seconds(latency)
    computing = Computing(None if forward is None else parse_seconds(forward), backward_threads)
    scenarios = [
        Scenario(count, ranks_per_node, rate, latency_s, one_machine)
        for rate in ([None] if bandwidth is None else map(parse_rate, bandwidth))
        for count in _counts(nodes)
    ]
    rows = [
        simulate_way(costs, gradients, scenario, Way(one, name), computing)
        for scenario in scenarios
        for one in codecs
        for name in topologies
    ]
    title = f"{gradients.model or 'gradients'}, {costs.machine.text}"
    console = Console()
    # A file or a pipe has no width to fit in.
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
    from hipress.secopa.gradients import read_gradients

    found = profile.gradients if model is None else read_gradients(model)
    if found is None:
        raise InvalidArgument("expected --model FILE: the profile has no gradients of a model in it")
    if backward_s is None:
        return found
    scale = backward_s / found.backward_s if found.backward_s else 0.0
    scaled = tuple(
        one if one.release_s is None else one.model_copy(update={"release_s": one.release_s * scale})
        for one in found.gradients
    )
    return type(found)(model=found.model, measured=found.measured, backward_s=backward_s, gradients=scaled)


def _counts(text: str) -> list[int]:
    """Of nodes: "4,8", or "2..64" for 2, 4, 8 … 64."""
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


def _largest(rows: Sequence[SimulatedWay]) -> list[SimulatedWay]:
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
    from hipress.secopa.quantities import rate
    from hipress.secopa.what_if import POINTLESS, pointless_from

    compressing = [codec for codec in codecs if codec != "none"]
    if not compressing:
        raise InvalidArgument("--pointless: expected a codec to compare with not compressing")
    # The network is what is looked for: each number of nodes once.
    for scenario in {one.nodes: one for one in scenarios}.values():
        if scenario.nodes == 1:
            continue
        found = pointless_from(profile, gradients, scenario, compressing, topologies)
        if found is None:
            yield f"{scenario.nodes} nodes: compressing saves more than {POINTLESS:.0%} of a step on any network"
        else:
            saves = f"compressing saves less than {POINTLESS:.0%} of a step"
            yield f"{scenario.nodes} nodes: {saves} with links of {rate(found)} or more"
