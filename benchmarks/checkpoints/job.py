# SPDX-License-Identifier: Apache-2.0
"""The job that checkpoints.py gives to its ranks, and their answer; both are JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass

#: Sequences of a step, over all ranks.
SEQUENCES = 16


@dataclass(frozen=True)
class Leg:
    """The part of a training that one job of ranks does: steps `first` to `last`.

    `system`: a codec's text, which DistributedOptimizer gets with AdamW, or an optimizer of hipress.torch.optim.
    `steps`: of the whole training. `load`: the checkpoint from which the job goes on; "": the job begins the training.
    `keeps_residuals`: whether the job loads the codec states of the checkpoint. `save`: the file of the checkpoint that
    the job writes before step `save_at`; "": it writes none.
    """

    system: str
    seed: int
    steps: int
    first: int
    last: int
    load: str = ""
    keeps_residuals: bool = True
    save: str = ""
    save_at: int = 0


@dataclass(frozen=True)
class Job:
    """A leg with the port of the rendezvous and the file of rank 0's answer."""

    leg: Leg
    gloo_port: int
    result: str

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def from_json(text: str) -> Job:
        fields = json.loads(text)
        return Job(**{**fields, "leg": Leg(**fields["leg"])})


@dataclass(frozen=True)
class Trained:
    """The answer. `losses`: by the number of steps, on sequences that are not in the training data.

    `saved_norm`, `loaded_norm`: length of the mean residual over all ranks when the checkpoint was saved, and after
    this job has loaded it; `load_error`: the length of the difference of both vectors, divided by `saved_norm`. They
    are None in a job that loads no codec states.
    """

    losses: Mapping[str, float]
    parameters: int
    saved_norm: float | None = None
    loaded_norm: float | None = None
    load_error: float | None = None
