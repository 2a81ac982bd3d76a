# SPDX-License-Identifier: Apache-2.0
"""Jobs that go on with another codec: what they average in all is what the ranks gave, as if nothing had been held
back. Every rank of a group calls these functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

from hipress.torch.process_groups import GroupAverage, GroupOptions
from hipress.torch.process_groups.dtypes import TensorShape
from hipress.torch.process_groups.gpus.side import GpuSide

#: Elements and rows.
COUNTS = {"a": (6000, 60), "b": (40_000, 200), "c": (3001, 1)}
BEFORE = 3

Sums = dict[str, NDArray[np.float64]]


def average_of(codec: str, topology: str, side: GpuSide | None = None, **options: Any) -> GroupAverage:
    hosts = 2 if topology == "hierarchical" else 0
    chosen = GroupOptions(codec, topology, ranks_per_host=hosts, min_compress_bytes=0, portion_bytes=20_000, **options)
    shapes = {name: TensorShape(count, torch.float32, 2, rows) for name, (count, rows) in COUNTS.items()}
    return GroupAverage(shapes, None, chosen, side=side)


def gradients_of(rank: int, step: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(100 * step + rank)
    return {name: torch.randn(count, generator=generator) for name, (count, _) in COUNTS.items()}


class Job:
    """Adds up what ranks have given, and what they got."""

    def __init__(self, world: int) -> None:
        self._world = world
        self.given: Sums = {name: np.zeros(count) for name, (count, _) in COUNTS.items()}
        self.got: Sums = {name: np.zeros(count) for name, (count, _) in COUNTS.items()}

    def step(
        self, average: GroupAverage, rank: int, step: int, *, scale: float = 1.0, poison: bool = False
    ) -> dict[str, torch.Tensor]:
        mine = {name: scale * each for name, each in gradients_of(rank, step).items()}
        if poison and rank == 1:
            mine["b"][17] = math.nan
        average.start(list(mine.items()), step).wait()
        if average._side.device.type == "cpu":
            average._side.synchronize()
        if not poison:
            for name, each in mine.items():
                self.got[name] += each.double().numpy() / scale
                for other in range(self._world):
                    self.given[name] += gradients_of(other, step)[name].double().numpy() / self._world
        return mine

    def check(self, most: Mapping[str, float], what: Any) -> None:
        """`most`: how far an element may be away, by the tensor."""
        for name, given in self.given.items():
            away = np.abs(given - self.got[name]).max()
            assert away < most.get(name, 1e-4), (what, name, away)


#: How far the average with a codec may be from the exact one, here.
ONCE = {"none": 1e-4, "fp16": 0.02, "int8": 0.2, "int8_shared(error_feedback=false)": 0.3}


def go_on(
    rank: int, world: int, topology: str, codec: str, side: Callable[[], GpuSide] | None = None, **options: Any
) -> None:
    """From a codec with residuals to those of ONCE, through a step that does not count."""

    def new(each: str, **more: Any) -> GroupAverage:
        return average_of(each, topology, None if side is None else side(), **options, **more)

    for later, most in ONCE.items():
        if topology != "ps" and later.startswith("int8_shared"):
            continue
        job = Job(world)
        first = new(codec)
        for step in range(BEFORE):
            job.step(first, rank, step)
        if later == "none":
            # Without its states the rest of the job would lack what the codec held back.
            with np.testing.assert_raises(AssertionError):
                job.check({}, codec)
        saved = first.state_dict()
        scale = [1.0]
        middle = new(later, scaler=lambda scale=scale: scale[0])
        middle.load_state_dict(saved)
        waiting = {key.split("\n")[0] for key, states in saved.items() if "residual" in states}
        assert _unsent(middle.state_dict()) == waiting
        # Saved before it was sent.
        last = new(later, scaler=lambda scale=scale: scale[0])
        last.load_state_dict(middle.state_dict())
        job.step(last, rank, 50, poison=True)
        assert _unsent(last.state_dict()) == waiting
        scale[0] = 64.0
        job.step(last, rank, 51, scale=64.0, poison=True)
        job.step(last, rank, BEFORE, scale=64.0)
        assert _unsent(last.state_dict()) == set()
        job.check(dict.fromkeys(COUNTS, most), (codec, later, topology))


def absent(rank: int, world: int) -> None:
    """A tensor for which no rank has a gradient does not send what was held back."""
    job = Job(world)
    first = average_of("onebit", "ps")
    for step in range(BEFORE):
        job.step(first, rank, step)
    last = average_of("none", "ps")
    last.load_state_dict(first.state_dict())
    for _ in range(2):
        zeros = {name: torch.zeros(count) for name, (count, _) in COUNTS.items()}
        last.start(list(zeros.items()), BEFORE).wait()
        assert not any(each.any() for each in zeros.values())
    job.step(last, rank, BEFORE)
    job.check({}, "absent")


def change_some(rank: int, world: int) -> None:
    """Other tensors than before travel compressed, so owners are other ranks."""
    job = Job(world)
    first = average_of("onebit", "ps")
    for step in range(BEFORE):
        job.step(first, rank, step)
    last = average_of("onebit", "ps", codec_for={"a": "none"})
    states: list[Any] = [None] * world
    dist.all_gather_object(states, first.state_dict())
    last.load_states_of(states)
    job.step(last, rank, BEFORE)
    last_states = last.state_dict()
    for name, most in {"a": 1e-4}.items():
        assert np.abs(job.given[name] - job.got[name]).max() < most
    exact = average_of("none", "ps")
    exact.load_state_dict(last_states)
    job.step(exact, rank, BEFORE + 1)
    job.check({}, "onebit for some tensors")


def with_fewer_ranks(rank: int, states: list[dict[str, Any]], codec: str, topology: str) -> Sums:
    """What two ranks average in their first step, from the states of four; without that step's gradients."""
    average = average_of(codec, topology)
    average.load_states_of(states)
    job = Job(2)
    job.step(average, rank, BEFORE)
    return {name: job.got[name] - job.given[name] for name in COUNTS}


def held_back(rank: int, world: int, codec: str, topology: str) -> tuple[dict[str, Any], Sums]:
    """States, and what the averages lack so far."""
    job = Job(world)
    average = average_of(codec, topology)
    for step in range(BEFORE):
        job.step(average, rank, step)
    return average.state_dict(), {name: job.given[name] - job.got[name] for name in COUNTS}


def _unsent(states: Mapping[str, Any]) -> set[str]:
    return {key.split("\n")[0] for key in states if key.split("\n")[1].startswith("unsent")}
