# SPDX-License-Identifier: Apache-2.0
"""The job that sync.py gives to its ranks, and their answer; both are JSON."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field

from benchmarks.harness.samples import Measured, Samples
from benchmarks.models import GradientSet, load, one_tensor

#: The peers. They are listed here, so that the command line needs no torch.
PEER_NAMES = (
    *("gloo-fp32", "gloo-fp16", "powersgd", "hook-fp16", "hook-onebit", "hook-dgc", "hook-int8", "hook-terngrad"),
    *("hook-powersgd", "horovod"),
)


@dataclass(frozen=True)
class Job:
    """The settings, equal on all ranks.

    `model`: a gradient set's name; empty: one tensor of `size` bytes. `ours`: codec and topology of each system of
    HiPress. `tried`: codec and topology of the candidates, of which only the best are measured. `min_compress_bytes`
    None: the default. `repeats` 0: as many as the budget allows. `interface`: the network device whose bytes are
    counted; empty: no device. `gloo_port`: the port of the rendezvous on this machine; 0: the environment has the
    address. `result`: the file of rank 0's answer.
    """

    model: str
    size: int
    ours: list[list[str]]
    tried: list[list[str]]
    peers: list[str]
    partitions: int
    min_compress_bytes: int | None
    release: str
    repeats: int
    timeout: float
    interface: str
    gloo_port: int
    result: str

    @property
    def gradients(self) -> GradientSet:
        """The gradients to average."""
        return load(self.model) if self.model else one_tensor(self.size)

    def to_json(self) -> str:
        """The job as JSON, for a rank's command line."""
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def from_json(text: str) -> Job:
        """Parses the JSON of `to_json`."""
        return Job(**json.loads(text))


@dataclass
class Answer:
    """The answer of all ranks. `trials`: for each codec, the seconds of each topology in its trial."""

    measured: list[Measured] = field(default_factory=list)
    trials: dict[str, dict[str, float]] = field(default_factory=dict)

    def to_json(self) -> str:
        """The answer as JSON, for the process that started the ranks."""
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def from_json(text: str) -> Answer:
        """Parses the JSON of `to_json`."""
        fields = json.loads(text)
        measured = [
            Measured(**{**one, "samples": [Samples(**samples) for samples in one["samples"]]})
            for one in fields["measured"]
        ]
        return Answer(measured, fields["trials"])
