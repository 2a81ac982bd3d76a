# SPDX-License-Identifier: Apache-2.0
"""The command `hipress profile`: measures the costs that planners need."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hipress.errors import InvalidArgument
from hipress.secopa.commands.explained import explained
from hipress.secopa.commands.measured import measured
from hipress.secopa.profile.gradients import read_gradients
from hipress.secopa.profile.profile import Profile

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
@explained
def profile(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The file of the profile.")] = Path(
        "profile.json"
    ),
    codec: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CODEC", help='A codec to measure, such as "dgc(ratio=0.01)"; may be repeated. Default: all codecs.'
        ),
    ] = None,
    seconds: Annotated[float, typer.Option(metavar="S", help="Approximate duration of the measurement.")] = 20.0,
    gradients: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The gradients of a model, with release times, to store in the profile."),
    ] = None,
) -> None:
    """Measure codecs, links and the engine on the machines of the ranks, and write a profile.

    All ranks run the command: hipress run -np 4 hipress profile -o profile.json, or another launcher. Rank 0 writes.

    The measurement uses as many compute threads as training does (HIPRESS_COMPUTE_THREADS).
    """
    if not seconds > 0:
        raise InvalidArgument(f"--seconds {seconds:g}: expected more than 0")
    given = None if gradients is None else read_gradients(gradients)
    found = measured("hipress profile", tuple(codec) if codec else None, seconds, given)
    if found is None:
        return
    found.write(output)
    for line in summary(found):
        typer.echo(line)
    typer.echo(f"wrote {output}")


def summary(profile: Profile) -> list[str]:
    """The main costs of a profile, as lines of text."""
    hosts = len({place.host for place in profile.ranks})
    large = 64 << 20
    lines = [
        f"{len(profile.ranks)} ranks on {hosts} hosts; {profile.machine.text}; instructions {profile.machine.isa}",
        _link_line(profile) if hosts > 1 else "one host: there are no links",
    ]
    if profile.shared_memory is not None:
        rate = profile.shared_memory.bandwidth_bytes_per_s
        lines.append(f"within a host: {rate / 1e9:.2f} GB/s, latency {profile.shared_memory.latency_s * 1e6:.0f} us")
    lines.append(f"{'codec':<24}{'encode':>12}{'merge':>12}{'bytes sent':>12}{'error':>8}")
    for text, costs in profile.codecs.items():
        times = costs.times(1)
        encode, merge = (_rate(large / curve.seconds(large)) for curve in (times.encode, times.merge))
        error = "-" if costs.relative_error is None else f"{costs.relative_error:.2f}"
        lines.append(f"{text:<24}{encode:>12}{merge:>12}{costs.encoded.of(large) / large:>12.2%}{error:>8}")
    for text, linked in profile.linked.items():
        first, second = (getattr(linked.times(1), name).seconds(large) for name in ("first", "second"))
        both = linked.tensors(large // 4, 4, (1 << 12, 1 << 12))
        sent = sum(one.bytes for one in both) / large if both is not None else 1.0
        error = "-" if linked.relative_error is None else f"{linked.relative_error:.2f}"
        lines.append(f"{text:<24}{_rate(large / (first + second)):>12}{'-':>12}{sent:>12.2%}{error:>8}")
    return lines


def _link_line(profile: Profile) -> str:
    link = profile.link
    both_ways = ""
    if link.duplex_bytes_per_s is not None:
        both_ways = f"{link.duplex_bytes_per_s * 8 / 1e9:.2f} in each direction if both are in use, "
    unlike = f"; {len(profile.links)} unlike these" if profile.links else ""
    return (
        f"links: {link.bandwidth_bytes_per_s * 8 / 1e9:.2f} Gbit/s, {both_ways}"
        f"latency {link.latency_s * 1e6:.0f} us{unlike}"
    )


def _rate(bytes_per_s: float) -> str:
    return f"{bytes_per_s / 1e9:.1f} GB/s"
