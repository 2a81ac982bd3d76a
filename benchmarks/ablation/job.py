# SPDX-License-Identifier: Apache-2.0
"""The job that ablation.py gives to its ranks, and their answer; both are JSON."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field

from benchmarks.ablation.variants import Variant
from benchmarks.harness.simulated_training import scaled
from benchmarks.models import GradientSet, load


@dataclass(frozen=True)
class Job:
    """The settings, equal on all ranks.

    `seconds`: approximate duration of all turns. `turns`: number of turns; 0: as many as fit. `result`: the file of
    rank 0's answer. `gloo_port`: the port where ranks of this machine meet; 0: the environment names the address.
    """

    model: str
    release: str
    backward_s: float
    variants: list[Variant]
    topology: str
    seconds: float
    turns: int
    timeout: float
    gloo_port: int
    result: str

    @property
    def gradients(self) -> GradientSet:
        """The gradients, with their release times."""
        return scaled(load(self.model), self.backward_s)

    @property
    def forward_start(self) -> float:
        """Seconds from the start of the clock until forward may begin."""
        return self.backward_s if self.release == "backward" else 0.0

    def to_json(self) -> str:
        """The job as JSON, for a rank's command line."""
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def from_json(text: str) -> Job:
        """Parses the JSON of `to_json`."""
        fields = json.loads(text)
        return Job(**{**fields, "variants": [Variant(**one) for one in fields["variants"]]})


@dataclass
class Visit:
    """The synchronisations of a variant in one turn; each list has one entry per synchronisation.

    The seconds until all gradients are averaged, and until the next forward could end, are those of the slowest rank.
    Counts and processor seconds are means over the ranks. `retransmitted`: TCP segments that a rank's host sent again.
    """

    turn: int
    time_s: list[float] = field(default_factory=list)
    step_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    messages: list[float] = field(default_factory=list)
    bundles: list[float] = field(default_factory=list)
    retransmitted: list[float] = field(default_factory=list)


#: The visits of each variant, by its name.
Visits = dict[str, list[Visit]]


def visits_to_json(visits: Visits) -> str:
    """The answer of all ranks."""
    return json.dumps({name: [dataclasses.asdict(one) for one in made] for name, made in visits.items()})


def visits_from_json(text: str) -> Visits:
    """Parses the JSON of `visits_to_json`."""
    return {name: [Visit(**one) for one in made] for name, made in json.loads(text).items()}
