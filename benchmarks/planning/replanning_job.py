# SPDX-License-Identifier: Apache-2.0
"""The job that replanning.py gives to its ranks, and their answer; both are JSON."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Job:
    """The settings. `model`: the model of the gradients; `backward_s`: duration of its backward. `folder`: where rank 0
    and the process that changes the rate leave files as signals; `result`: the file of rank 0's answer."""

    model: str
    codecs: list[str]
    backward_s: float
    profile_s: float
    folder: str
    result: str

    @property
    def settled(self) -> Path:
        """The file that signals that the ranks have followed the plan for the first rate for a while."""
        return Path(self.folder) / "settled"

    @property
    def changed(self) -> Path:
        """The file that signals that the rate has changed."""
        return Path(self.folder) / "changed"

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def from_json(text: str) -> Job:
        return Job(**json.loads(text))


@dataclass(frozen=True)
class Step:
    """A step of one rank. `plan`: the fingerprint of the plan; empty: there was none."""

    seconds: float
    plan: str
    compressed: int
    bytes_sent: int
    changed: bool


@dataclass(frozen=True)
class Answer:
    """The answer of the ranks.

    `steps`: seconds of the slowest rank and bytes of rank 0. `alike`: whether all ranks followed the same plan in each
    step, and had the same parameters at the end. `lacking`: the part of the averages that is missing from the
    parameters, relative to the largest average: while a codec keeps a residual, and after uncompressed steps.
    """

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
