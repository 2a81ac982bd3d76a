# SPDX-License-Identifier: Apache-2.0
"""What sync.py asks of its ranks, and what they answer. Both travel as JSON."""

from __future__ import annotations

import dataclasses
import json
import statistics
from dataclasses import dataclass, field

from models import GradientSet, load, one_tensor

#: Of --release: all gradients at once, or at the times at which backward had them.
RELEASES = ("all", "backward")
#: Who else there is. Here, as whoever reads a command line should not need torch for it.
PEER_NAMES = ("gloo-fp32", "gloo-fp16", "powersgd", "horovod")


@dataclass(frozen=True)
class Job:
    """What to measure, for all ranks alike.

    `model`: a gradient set's name; empty: one tensor of `size` bytes. `ours`: codec and topology of each system.
    `tried`: codec and topology of those of which only the best are to be measured.
    `min_compress_bytes` None: the default. `repeats` 0: as many as the budget allows. `interface`: the device whose
    bytes are counted; empty: none. `gloo_port`: where the ranks of a job on this machine meet; 0: the environment says
    where. `result`: where rank 0 leaves the answer.
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
        """What is averaged."""
        return load(self.model) if self.model else one_tensor(self.size)

    def to_json(self) -> str:
        """For a rank's command line."""
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def from_json(text: str) -> Job:
        """What `to_json` has written."""
        return Job(**json.loads(text))


@dataclass
class Samples:
    """One rank's figures of one system: one entry per repetition. Bytes: None where nobody counts."""

    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    bytes_sent: list[int | None] = field(default_factory=list)
    link_bytes: list[int | None] = field(default_factory=list)

    def extend(self, more: Samples) -> None:
        """Further repetitions."""
        self.seconds += more.seconds
        self.cpu_seconds += more.cpu_seconds
        self.bytes_sent += more.bytes_sent
        self.link_bytes += more.link_bytes


@dataclass(frozen=True)
class Measured:
    """All ranks' figures of one system. `error`: the largest of any rank. `codec_s`: the processor time that all ranks'
    encoding and decoding takes by itself; None: not known, or there is none."""

    system: str
    codec: str
    topology: str | None
    error: float
    samples: list[Samples]
    codec_s: float | None = None

    @property
    def seconds(self) -> list[float]:
        """Of each repetition: the slowest rank's, for which training would wait."""
        return [max(times) for times in zip(*(samples.seconds for samples in self.samples), strict=True)]

    @property
    def time_s(self) -> float:
        """The median of `seconds`."""
        return statistics.median(self.seconds)


@dataclass
class Answer:
    """What all ranks have found. `trials`: of each codec the seconds that each topology took when it was tried."""

    measured: list[Measured] = field(default_factory=list)
    trials: dict[str, dict[str, float]] = field(default_factory=dict)

    def to_json(self) -> str:
        """For whoever has started the ranks."""
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def from_json(text: str) -> Answer:
        """What `to_json` has written."""
        fields = json.loads(text)
        measured = [
            Measured(**{**one, "samples": [Samples(**samples) for samples in one["samples"]]})
            for one in fields["measured"]
        ]
        return Answer(measured, fields["trials"])
