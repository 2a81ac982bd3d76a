# SPDX-License-Identifier: Apache-2.0
"""The job that diloco.py gives to its ranks, and their answer; both are JSON."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass

#: torch's DistributedDataParallel over Gloo with its hook that sends bf16. It synchronises in every step.
DDP = "ddp-bf16"
#: The training without synchronisation: its row has the time of computing alone.
ALONE = "alone"
#: "streaming" without overlap: training waits for the same synchronisations.
WAITING = "streaming-waiting"
STREAMING = ("streaming", WAITING)
SYSTEMS = (ALONE, DDP, "diloco", "streaming", WAITING, "sparseloco", "local_sgd")
#: These trainings have fewer steps, because only their times are compared.
TIMED_ONLY = (ALONE, WAITING)


@dataclass(frozen=True)
class Job:
    """The settings, equal on all ranks. `sequences`, `context`: numbers for each rank and step. `gloo_port`: the port
    of the rendezvous; `result`: the file of rank 0's answer.
    """

    systems: list[str]
    steps: int
    ddp_steps: int
    """Number of steps of DDP, which takes far fewer in the same time."""
    sequences: int
    context: int
    width: int
    layers: int
    learning_rate: float
    sync_every: int
    fragments: int
    overlap_steps: int
    streaming_codec: str
    every: int
    """Steps between two points of the curve."""
    seed: int
    interface: str
    """The network device of a node's link; empty: there are no links."""
    gloo_port: int
    result: str

    @property
    def step_tokens(self) -> int:
        """Tokens of one rank in a step."""
        return self.sequences * self.context

    def to_json(self) -> str:
        """The job as JSON, for a rank's command line."""
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def from_json(text: str) -> Job:
        """Parses the JSON of `to_json`."""
        return Job(**json.loads(text))


@dataclass(frozen=True)
class Trained:
    """The figures of one training: means over the ranks, except `times_s` and `losses`, which are rank 0's."""

    steps: int
    time_s: float
    """Seconds of the steps, without the benchmark's own work between them."""
    waiting_s: float | None
    """The part of `time_s` by which the optimizer's steps exceed their median. None: DDP has no such steps."""
    sent_bytes: int | None
    """Bytes that a rank sent over its link; None: there is no link."""
    parameters: int
    times_s: dict[int, float]
    """Number of steps → seconds since the start."""
    losses: dict[int, float]
    """Number of steps → loss of the trained model at that time, on bytes that are not in the training data (nats)."""
