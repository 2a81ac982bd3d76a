# SPDX-License-Identifier: Apache-2.0
"""The job that diloco.py gives to its ranks, and their answer; both are JSON."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass

#: torch's DistributedDataParallel over Gloo with its hook that sends bf16: it synchronises in every step.
DDP = "ddp-bf16"
#: The ranks do not synchronise: this row is the time of computing alone.
ALONE = "alone"
#: "streaming" without overlap: the same exchanges, for which training waits.
WAITING = "streaming-waiting"
SYSTEMS = (ALONE, DDP, "diloco", "streaming", WAITING, "sparseloco", "local_sgd")
#: These trainings have fewer steps, because only their times are compared.
TIMED_ONLY = (ALONE, WAITING)


@dataclass(frozen=True)
class Job:
    """`sequences`, `context`: of each rank and step. `gloo_port`: where ranks meet; `result`: rank 0's answer."""

    systems: list[str]
    steps: int
    ddp_steps: int
    """Of DDP, which has far fewer in the same time."""
    sequences: int
    context: int
    width: int
    layers: int
    learning_rate: float
    sync_every: int
    fragments: int
    overlap_steps: int
    every: int
    """Steps between two points of the curve."""
    seed: int
    interface: str
    """The nodes' end of their links; empty: there are none."""
    gloo_port: int
    result: str

    @property
    def step_tokens(self) -> int:
        """Of one rank."""
        return self.sequences * self.context

    def to_json(self) -> str:
        """See from_json()."""
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def from_json(text: str) -> Job:
        """The job of to_json()."""
        return Job(**json.loads(text))


@dataclass(frozen=True)
class Trained:
    """One training. Means over the ranks, except `times_s` and `losses`, which are rank 0's."""

    steps: int
    time_s: float
    """Time of the steps, without what the benchmark does between them."""
    waiting_s: float | None
    """Part of `time_s`: what the optimizer's steps take above their median. None: DDP has no such steps."""
    sent_bytes: int | None
    """That a rank sent over its link; None: there is no link."""
    parameters: int
    times_s: dict[int, float]
    """After how many steps which time had passed."""
    losses: dict[int, float]
    """The trained model's at these times, on bytes that are not in the training data (nats)."""
