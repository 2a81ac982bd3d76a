# SPDX-License-Identifier: Apache-2.0
"""What planning.py asks of its ranks, and what they answer. Both travel as JSON."""

from __future__ import annotations

import dataclasses
import json
import statistics
from dataclasses import dataclass, field

from models import HERE, GradientSet, load

from hipress.secopa.choice import RAW, Choice
from hipress.secopa.gradients import GradientSet as PlannedSet
from hipress.secopa.gradients import read_gradients

#: Smaller gradients travel as they are, in plans as without.
MIN_COMPRESS_BYTES = 4096


@dataclass(frozen=True)
class Job:
    """What to measure, for all ranks alike.

    `grid`: codec, topology and partitions (0: by size) of each uniform run. `planned`: the codecs that each plan may
    use. `profile`: JSON; empty: it is measured, in `profile_s` seconds. `result`: where rank 0 leaves the answer.
    """

    model: str
    release: str
    grid: list[tuple[str, str, int]]
    planned: list[list[str]]
    topologies: list[str]
    rounds: int
    profile: str
    profile_s: float
    timeout: float
    result: str

    @property
    def gradients(self) -> GradientSet:
        """As benchmarks take them."""
        return load(self.model)

    @property
    def planned_gradients(self) -> PlannedSet:
        """As plans take them: with their release times, or all there from the start."""
        found = read_gradients(HERE / f"{self.model}.json")
        if self.release == "backward":
            return found
        at_once = tuple(one.model_copy(update={"release_s": 0.0}) for one in found.gradients)
        return found.model_copy(update={"gradients": at_once, "backward_s": 0.0})

    def uniform_choices(self, codec: str, topology: str, partitions: int) -> list[Choice]:
        """What a uniform run does with each gradient."""
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
    """One rank's figures of one system: one entry per repetition."""

    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    bytes_sent: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Measured:
    """All ranks' figures of one system: a uniform run of the grid, or (`plan` its JSON) a planned one."""

    codec: str
    topology: str | None
    partitions: int | None
    plan: str | None
    samples: list[Samples]

    @property
    def seconds(self) -> list[float]:
        """Of each repetition: the slowest rank's."""
        return [max(times) for times in zip(*(one.seconds for one in self.samples), strict=True)]

    @property
    def time_s(self) -> float:
        return statistics.median(self.seconds)

    def mean(self, what: str) -> float:
        """Of a field of Samples: the median repetition's mean over the ranks."""
        each = zip(*(getattr(one, what) for one in self.samples), strict=True)
        return statistics.median(statistics.fmean(ranks) for ranks in each)


@dataclass(frozen=True)
class Answer:
    """What all ranks have found. `planning_s`: what making each plan took."""

    profile: str
    measured: list[Measured]
    planning_s: list[float]

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def from_json(text: str) -> Answer:
        fields = json.loads(text)
        measured = [
            Measured(**{**one, "samples": [Samples(**samples) for samples in one["samples"]]})
            for one in fields["measured"]
        ]
        return Answer(fields["profile"], measured, fields["planning_s"])
