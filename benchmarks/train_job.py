# SPDX-License-Identifier: Apache-2.0
"""What train.py asks of its ranks, and what they answer. Both travel as JSON."""

from __future__ import annotations

import dataclasses
import json
import statistics
from dataclasses import dataclass

#: MXNet's own kvstore, as it is and with its 2-bit compression.
DIST_SYNC = ("dist-sync", "dist-sync-2bit")
#: Who else there is, by framework. Here, as whoever reads a command line should not need one for it. Not
#: powerSGD_hook: over Gloo it starts the operations of several buckets in an order that differs between ranks, and ends
#: the process.
PEERS = {"torch": ("ddp", "ddp-fp16", "horovod"), "mxnet": (*DIST_SYNC, "horovod")}
MODELS = {"torch": ("resnet50", "bert-base"), "mxnet": ("resnet50",)}
#: Images or texts of each rank, if it is not said: computing and dense communication at 1 Gbit/s are of one order, four
#: ranks on two cores (ResNet-50 2.0 s and 1.3 s, BERT-base 5.2 s and 5.3 s).
BATCH_SIZES = {"resnet50": 3, "bert-base": 4}
#: Peers in processes of their own: in an environment of their own, or with processes beside them. If they cannot be
#: measured the others are.
APART = (*DIST_SYNC, "horovod")


@dataclass(frozen=True)
class Job:
    """What to measure, for all ranks alike. `interface`: over which Horovod talks; empty: the loopback. `gloo_port`:
    where the ranks of a job on this machine meet; 0: the environment says where. `result`: where rank 0 leaves it."""

    model: str
    batch_size: int
    systems: list[str]
    steps: int
    timeout: float
    interface: str
    gloo_port: int
    result: str

    def to_json(self) -> str:
        """For a rank's command line."""
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def from_json(text: str) -> Job:
        """What `to_json` has written."""
        return Job(**json.loads(text))


@dataclass(frozen=True)
class Measured:
    """Seconds of each step, the slowest rank's, beside those of computing alone in turn with it; of the processor, the
    mean rank's."""

    system: str
    seconds: list[float]
    alone_seconds: list[float]
    cpu_seconds: list[float]
    bytes_sent: int | None

    @property
    def compute_ratio(self) -> float:
        """How many times as long as computing alone: the median of pairs."""
        return statistics.median(mine / alone for mine, alone in zip(self.seconds, self.alone_seconds, strict=True))
