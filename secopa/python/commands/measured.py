# SPDX-License-Identifier: Apache-2.0
"""Measures a profile in a job that consists of one command: all ranks run it, and rank 0 gets the profile."""

from __future__ import annotations

import os

import typer

from hipress.errors import InvalidArgument
from hipress.secopa.commands.progress import progress, silent
from hipress.secopa.profile.gradients import GradientSet
from hipress.secopa.profile.profile import Profile

#: Deadline of waits, as a multiple of the measuring time: ranks wait while other ranks measure.
_PATIENCE = 20


def measured(
    command: str, codecs: tuple[str, ...] | None, seconds: float, gradients: GradientSet | None, fewest_ranks: int = 1
) -> Profile | None:
    """The profile on rank 0, None on the other ranks. `command`: the name that progress and profile show.
    `codecs`: None for all_codecs().

    Raises InvalidArgument for an unknown codec, a variable that prevents the measurement, or a job with fewer than
    `fewest_ranks`; PeerLost, Timeout.
    """
    from hipress import runtime
    from hipress.secopa.online.measure.measured_profile import MeasureOptions, measure_profile

    options = runtime.RuntimeOptions.from_environment()
    if not options.pipelining:
        raise InvalidArgument("HIPRESS_PIPELINING=0: the measurement of links needs pipelining; unset this variable")
    runtime.init(timeout=max(options.timeout, _PATIENCE * seconds))
    try:
        if runtime.size() < fewest_ranks:
            raise InvalidArgument(
                f"this job has {runtime.size()} rank: start {fewest_ranks} or more, such as hipress run -np "
                f"{max(4, fewest_ranks)} {command}"
            )
        process = runtime.current()
        texts = all_codecs(runtime.size()) if codecs is None else codecs
        measuring = MeasureOptions(texts, seconds, compute_threads=process.options.compute_threads, made=command)
        if runtime.rank() != 0:
            measure_profile(process.engine, measuring, gradients, silent)
            return None
        warn_if_busy(command)
        with progress(command, seconds) as stage:
            return measure_profile(process.engine, measuring, gradients, stage)
    finally:
        runtime.shutdown()


def warn_if_busy(command: str) -> None:
    """Warns if other programs use the cores: computing then seems slower than it is, and compression more expensive."""
    load, cores = os.getloadavg()[0], len(os.sched_getaffinity(0))
    if load > cores:
        typer.echo(
            f"{command}: this machine is busy (in the last minute {load:.1f} programs wanted its {cores} cores), so "
            "computing seems slower than it is: measure again when nothing else runs",
            err=True,
        )


def all_codecs(world: int) -> tuple[str, ...]:
    """The texts of all codecs with an encoding that come with HiPress, except none, and except those whose levels no
    sum of `world` ranks holds. powersgd, which has no encoding, needs the shapes of gradients: users name it."""
    from hipress._library import load_core

    core = load_core()
    names = [codec["name"] for codec in core.describe_codecs() if codec["name"] != "none"]
    made = [(name, core.create_codec(name)) for name in names]
    return tuple(name for name, codec in made if codec.summed is None or codec.summed[2] >= world)
