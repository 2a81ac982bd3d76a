# SPDX-License-Identifier: Apache-2.0
"""The job that planning.py gives to its ranks, and their answer; both are JSON."""

from __future__ import annotations

import dataclasses
import json
import statistics
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from benchmarks.models import HERE, GradientSet, load
from hipress.options.travel import MIN_COMPRESS_BYTES
from hipress.secopa.plan.choice import RAW, Choice
from hipress.secopa.profile.gradients import GradientSet as PlannedSet
from hipress.secopa.profile.gradients import read_gradients


@dataclass(frozen=True)
class Job:
    """The settings, equal on all ranks.

    `grid`: codec, topology and partitions (0: by size) of each uniform run. `planned`: the codecs that each plan may
    use. `profile`: a profile as JSON; empty: the ranks measure one before each turn, in `profile_s` seconds. `result`:
    the file of rank 0's answer.
    """

    model: str
    release: str
    grid: list[tuple[str, str, int]]
    planned: list[list[str]]
    topologies: list[str]
    turns: int
    profile: str
    profile_s: float
    timeout: float
    result: str

    @property
    def gradients(self) -> GradientSet:
        """The gradients in the form of the benchmarks."""
        return load(self.model)

    @property
    def planned_gradients(self) -> PlannedSet:
        """The gradients in the form of plans: with release times, or all complete at the start."""
        found = read_gradients(HERE / f"{self.model}.json")
        if self.release == "backward":
            return found
        at_once = tuple(one.model_copy(update={"release_s": 0.0}) for one in found.gradients)
        return found.model_copy(update={"gradients": at_once, "backward_s": 0.0})

    def uniform_choices(self, codec: str, topology: str, partitions: int) -> list[Choice]:
        """The choice of a uniform run for each gradient."""
        return [
            Choice(codec if one.bytes >= MIN_COMPRESS_BYTES else RAW, topology, partitions)
            for one in self.planned_gradients.gradients
        ]

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def from_json(text: str) -> Job:
        fields = json.loads(text)
        return Job(**{**fields, "grid": [tuple(one) for one in fields["grid"]]})


@dataclass
class Samples:
    """One rank's figures of one system, one entry per repetition. `turns`: number of repetitions of each turn."""

    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    bytes_sent: list[int] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)


def slowest(ranks: list[Samples]) -> list[float]:
    """Seconds of each repetition on the slowest rank."""
    return [max(times) for times in zip(*(one.seconds for one in ranks), strict=True)]


def medians(ranks: list[Samples]) -> list[float]:
    """The median time of each turn's repetitions."""
    times = iter(slowest(ranks))
    return [statistics.median(islice(times, count)) for count in ranks[0].turns]


@dataclass(frozen=True)
class Pair:
    """The figures of a plan and of the fastest uniform run, measured directly after each other, of all ranks."""

    plan: list[Samples]
    uniform: list[Samples]

    @property
    def share(self) -> float:
        """The plan's time divided by the uniform run's time: the median over the turns."""
        both = zip(medians(self.plan), medians(self.uniform), strict=True)
        return statistics.median(plan_s / uniform_s for plan_s, uniform_s in both)


@dataclass(frozen=True)
class Measured:
    """All ranks' figures of one system: a uniform run of the grid, or a plan (`plan`: its JSON). `pair`: the plan
    measured beside the fastest uniform run with its codecs or without codec."""

    codec: str
    topology: str | None
    partitions: int | None
    plan: str | None
    samples: list[Samples]
    pair: Pair | None = None

    @property
    def time_s(self) -> float:
        return statistics.median(slowest(self.samples))

    def mean(self, what: str) -> float:
        """The median over the repetitions of a field's mean over the ranks. `what`: a field of Samples."""
        each = zip(*(getattr(one, what) for one in self.samples), strict=True)
        return statistics.median(statistics.fmean(ranks) for ranks in each)


def fastest_uniform(codec: str, measured: list[Measured]) -> int:
    """The index of the fastest uniform run with one of the plan's codecs or without codec."""
    codecs = {RAW, *codec.split(",")}
    found = [index for index, one in enumerate(measured) if one.plan is None and one.codec in codecs]
    return min(found, key=lambda index: measured[index].time_s)


@dataclass(frozen=True)
class Answer:
    """The answer of all ranks. `profiles`: the profile of each turn; all are the same if the job has one. `planning_s`:
    seconds to make each plan from the first profile."""

    profiles: list[str]
    measured: list[Measured]
    planning_s: list[float]

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def from_json(text: str) -> Answer:
        fields = json.loads(text)
        measured = [
            Measured(**{**one, "samples": _samples(one["samples"]), "pair": _pair(one["pair"])})
            for one in fields["measured"]
        ]
        return Answer(fields["profiles"], measured, fields["planning_s"])


def _samples(ranks: list[dict[str, Any]]) -> list[Samples]:
    return [Samples(**one) for one in ranks]


def _pair(fields: dict[str, Any] | None) -> Pair | None:
    return None if fields is None else Pair(_samples(fields["plan"]), _samples(fields["uniform"]))
