# SPDX-License-Identifier: Apache-2.0
"""The job that optimizers.py gives to its ranks, and their answer; both are JSON."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass

from benchmarks.optimizers.own import OWN

#: torch's DistributedDataParallel over Gloo, the reference of all trainings.
DDP = "ddp"
#: Optimizer, learning rate and momentum by name. Both SGDs take equally long steps: 0.3 and 0.03 / (1 - 0.9).
OPTIMIZERS: dict[str, tuple[str, float, float]] = {
    "adamw": ("AdamW", 1e-3, 0.0),
    "adamw-fast": ("AdamW", 3e-3, 0.0),
    "sgd": ("SGD", 0.3, 0.0),
    "momentum": ("SGD", 0.03, 0.9),
}
#: The training with dgc in which codec and optimizer both have momentum.
TWICE = "momentum-twice"


@dataclass(frozen=True)
class Trial:
    """One training. `system`: DDP, a name of OWN or a codec's text; `name`: a name of OPTIMIZERS, or TWICE."""

    system: str
    name: str
    optimizer: str
    learning_rate: float
    momentum: float


def trials(systems: list[str], names: list[str]) -> list[Trial]:
    """The trainings: all systems with each optimizer, those of OWN only with AdamW, and only once if they have a
    learning rate of their own. With dgc the codec has the momentum
    and the optimizer has none, so that momentum applies once."""
    made = []
    for name in names:
        optimizer, rate, momentum = OPTIMIZERS[name]
        for system in systems:
            if system in OWN:
                own_rate = OWN[system].learning_rate
                if name == "adamw" or (optimizer == "AdamW" and own_rate is None):
                    made.append(Trial(system, name, optimizer, own_rate or rate, momentum))
                continue
            if not system.startswith("dgc"):
                made.append(Trial(system, name, optimizer, rate, momentum))
                continue
            plain = with_option(system, "momentum=0") if name == "sgd" else system
            made.append(Trial(plain, name, optimizer, rate, 0.0))
            if name == "momentum" and system == "dgc":
                made.append(Trial(system, TWICE, optimizer, rate, momentum))
    return made


def with_option(codec: str, option: str) -> str:
    """The codec's text with one more option."""
    return f"{codec[:-1]}, {option})" if codec.endswith(")") else f"{codec}({option})"


@dataclass(frozen=True)
class Job:
    """The settings, equal on all ranks. `text`: a name of model.TEXTS. `sequences`: number per rank and
    step. `gloo_port`: the port of the rendezvous;
    `result`: the file of rank 0's answer.
    """

    trials: list[Trial]
    text: str
    steps: int
    sequences: int
    seed: int
    gloo_port: int
    result: str

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def from_json(text: str) -> Job:
        fields = json.loads(text)
        return Job(**{**fields, "trials": [Trial(**trial) for trial in fields["trials"]]})


@dataclass(frozen=True)
class Trained:
    """The result of a training. `loss`: loss on sequences that are not in the training data; None if it is not finite.
    `bytes_sent`: bytes per step of the rank that sends most; None for DDP. `bytes_frozen`: the same for the
    steps with a frozen variance."""

    loss: float | None
    bytes_sent: int | None
    parameters: int
    bytes_frozen: int | None = None
