# SPDX-License-Identifier: Apache-2.0
"""What replanning.py asks of its ranks, and what they answer. Both travel as JSON."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Job:
    """`model`: whose gradients; `backward_s`: in which its backward pass makes them. `folder`: where rank 0 and whoever
    changes the rate tell each other how far they are; `result`: where rank 0 leaves the answer."""

    model: str
    codecs: list[str]
    backward_s: float
    profile_s: float
    folder: str
    result: str

    @property
    def settled(self) -> Path:
        """Is there when the plan for the first rate has been followed for a while."""
        return Path(self.folder) / "settled"

    @property
    def changed(self) -> Path:
        """Is there when the rate is another."""
        return Path(self.folder) / "changed"

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def from_json(text: str) -> Job:
        return Job(**json.loads(text))


@dataclass(frozen=True)
class Step:
    """Of one rank. `plan`: its fingerprint; empty: there was none."""

    seconds: float
    plan: str
    compressed: int
    bytes_sent: int
    changed: bool


@dataclass(frozen=True)
class Answer:
    """`steps`: the slowest rank's seconds of each, rank 0's bytes. `alike`: in each step all ranks followed the same
    plan, and at the end all had the same parameters. `lacking`: of what gradients averaged to, what never arrived, by
    the largest of them, while a codec held something back and after everything was sent as it is."""

    gradients: int
    steps: list[Step]
    alike: bool
    lacking_before: float
    lacking_after: float

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def from_json(text: str) -> Answer:
        fields = json.loads(text)
        return Answer(**{**fields, "steps": [Step(**step) for step in fields["steps"]]})
