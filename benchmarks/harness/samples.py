# SPDX-License-Identifier: Apache-2.0
"""The figures of repeated averaging, for one rank and for all ranks."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field


@dataclass
class Samples:
    """The figures of one rank and one system, an entry per repetition. Bytes are None if the system does not count
    them."""

    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    bytes_sent: list[int | None] = field(default_factory=list)
    link_bytes: list[int | None] = field(default_factory=list)

    def extend(self, more: Samples) -> None:
        """Adds the repetitions of `more`."""
        self.seconds += more.seconds
        self.cpu_seconds += more.cpu_seconds
        self.bytes_sent += more.bytes_sent
        self.link_bytes += more.link_bytes


@dataclass(frozen=True)
class Measured:
    """The figures of all ranks for one system. `error`: the largest error of a rank. `codec_s`: processor seconds of
    all ranks for encoding and decoding alone; None if there is no codec or they are not known."""

    system: str
    codec: str
    topology: str | None
    error: float
    samples: list[Samples]
    codec_s: float | None = None

    @property
    def seconds(self) -> list[float]:
        """Seconds of each repetition on the slowest rank, for which a training would wait."""
        return [max(times) for times in zip(*(samples.seconds for samples in self.samples), strict=True)]

    @property
    def time_s(self) -> float:
        """The median of `seconds`."""
        return statistics.median(self.seconds)
