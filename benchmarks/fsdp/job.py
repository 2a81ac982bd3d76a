# SPDX-License-Identifier: Apache-2.0
"""The job that fsdp gives to its ranks, and their answer; both are JSON."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass

#: Each rank trains by itself.
ALONE = "alone"
#: FSDP2 as it is; with its own collectives in bfloat16 (bfloat16_traffic.py); with all of its traffic in block int8.
FSDP, BFLOAT16, INT8 = "fsdp", "fsdp-bf16", "fsdp-int8"
SYSTEMS = (ALONE, FSDP, BFLOAT16, INT8)


@dataclass(frozen=True)
class Job:
    """The settings, equal on all ranks. `sequences`, `context`: numbers for each rank and step. `gloo_port`: the port
    of the rendezvous; `result`: the file of rank 0's answer.
    """

    systems: list[str]
    text: str
    steps: int
    sequences: int
    context: int
    width: int
    layers: int
    learning_rate: float
    seed: int
    interface: str
    """The network device of a node's link; empty: there are no links."""
    gloo_port: int
    result: str

    def to_json(self) -> str:
        """The job as JSON, for a rank's command line."""
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def from_json(text: str) -> Job:
        """Parses the JSON of `to_json`."""
        return Job(**json.loads(text))


@dataclass(frozen=True)
class Trained:
    """The figures of one training."""

    seconds: list[float]
    """Of each timed step: those of the slowest rank."""
    cpu_seconds: float
    """Processor seconds of a rank in a timed step, on average: also those of Gloo's threads."""
    sent_bytes: float | None
    """Bytes that a rank sends over its link in a step, on average; None: there is no link."""
    parameters: int
    loss: float
    """Of the trained model on text that is not in the training data (nats)."""
