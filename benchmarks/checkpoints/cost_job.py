# SPDX-License-Identifier: Apache-2.0
"""The job that checkpoint_cost.py gives to its ranks, and the figures of their answer; both are JSON."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass

#: The ways to keep codec states.
OPTIMIZER, HOOK = "DistributedOptimizer", "DDP's hook"
#: States of one rank, their mean over all ranks, and the copy of the states of one rank.
OWN, MEAN, COPY = "own", "mean", "copy"


@dataclass(frozen=True)
class CostJob:
    """A model of benchmarks/models, a codec and a way. `gloo_port`: the port of the rendezvous; `result`: the file of
    rank 0's answer."""

    model: str
    codec: str
    way: str
    repeats: int
    gloo_port: int
    result: str

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def from_json(text: str) -> CostJob:
        return CostJob(**json.loads(text))


@dataclass(frozen=True)
class Times:
    """Times of rank 0, an entry for each turn. `cpu_seconds`: processor time of all threads."""

    seconds: list[float]
    cpu_seconds: list[float]
