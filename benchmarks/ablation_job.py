# SPDX-License-Identifier: Apache-2.0
"""What ablation.py asks of its ranks, and what they answer. Both travel as JSON."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field

from ablation_variants import Variant
from models import GradientSet, load
from simulated_training import scaled


@dataclass(frozen=True)
class Job:
    """What to measure, for all ranks alike. `seconds`: of all rounds together, about. `rounds` 0: as many as fit.
    `result`: where rank 0 leaves the answer. Ranks on this machine meet at `gloo_port`; 0: the environment says where.
    """

    model: str
    release: str
    backward_s: float
    variants: list[Variant]
    topology: str
    seconds: float
    rounds: int
    timeout: float
    gloo_port: int
    result: str

    @property
    def gradients(self) -> GradientSet:
        """What is averaged, and when backward has it."""
        return scaled(load(self.model), self.backward_s)

    @property
    def forward_start(self) -> float:
        """Seconds from the start of the clock until the forward pass may begin."""
        return self.backward_s if self.release == "backward" else 0.0

    def to_json(self) -> str:
        """For a rank's command line."""
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def from_json(text: str) -> Job:
        """What `to_json` has written."""
        fields = json.loads(text)
        return Job(**{**fields, "variants": [Variant(**one) for one in fields["variants"]]})


@dataclass
class Visit:
    """A variant's synchronisations in one round, an entry each: seconds until everything is averaged and until the
    next forward pass could be over, of the slowest rank; counts and processor seconds of the mean rank."""

    round: int
    time_s: list[float] = field(default_factory=list)
    step_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    messages: list[float] = field(default_factory=list)
    bundles: list[float] = field(default_factory=list)


#: Of each variant, by its name.
Visits = dict[str, list[Visit]]


def visits_to_json(visits: Visits) -> str:
    """The answer of all ranks."""
    return json.dumps({name: [dataclasses.asdict(one) for one in made] for name, made in visits.items()})


def visits_from_json(text: str) -> Visits:
    """What `visits_to_json` has written."""
    return {name: [Visit(**one) for one in made] for name, made in json.loads(text).items()}
