# SPDX-License-Identifier: Apache-2.0
"""The job that train.py gives to its ranks, and their answer; both are JSON."""

from __future__ import annotations

import dataclasses
import json
import statistics
from dataclasses import dataclass

#: MXNet's own kvstore, without and with its 2-bit compression.
DIST_SYNC = ("dist-sync", "dist-sync-2bit")
#: The peers by framework. They are listed here, so that the command line needs no framework. powerSGD_hook is missing:
#: over Gloo it starts the operations of several buckets in an order that differs between ranks, and the process ends.
PEERS = {
    "torch": (
        *("ddp", "ddp-fp16", "ddp-bf16"),
        *("hook-int8", "hook-int8-ps", "hook-int4", "hook-onebit", "hook-auto"),
        "horovod",
    ),
    "mxnet": (*DIST_SYNC, "horovod"),
}
#: Process groups by the device on which the model computes, the default first.
GROUPS = {"cpu": ("gloo",), "cuda": ("nccl", "gloo")}
MODELS = {"torch": ("resnet50", "bert-base", "matrices", "small"), "mxnet": ("resnet50",)}
#: Default batch sizes of each rank, in images or texts: computing takes about as long as uncompressed synchronisation
#: at 1 Gbit/s, with four ranks on two cores.
BATCH_SIZES = {"resnet50": 3, "bert-base": 4, "matrices": 32, "small": 32}
#: The same on a GPU, which four ranks share.
GPU_BATCH_SIZES = {"resnet50": 32, "bert-base": 32, "matrices": 1024, "small": 1024}
#: Peers with processes or an environment of their own. If one of them fails, the others are measured.
APART = (*DIST_SYNC, "horovod")


@dataclass(frozen=True)
class Job:
    """The settings, equal on all ranks. `device`: "cpu" or "cuda", where the model computes. `group`: what carries the
    tensors of DDP and the hook, "gloo" or "nccl". `interface`: the network device for Horovod; empty: the loopback.
    `gloo_port`: the port of the rendezvous on this machine; 0: the environment has the address. `result`: the file of
    rank 0's answer."""

    model: str
    device: str
    group: str
    batch_size: int
    systems: list[str]
    steps: int
    timeout: float
    interface: str
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
class Measured:
    """The figures of a system: "cpu" or the name of the GPU, seconds of each step of the slowest rank, seconds of the
    steps that only compute and alternate with them, and mean processor seconds of the ranks."""

    system: str
    device: str
    seconds: list[float]
    alone_seconds: list[float]
    cpu_seconds: list[float]
    bytes_sent: int | None
    chosen: str = ""
    """The choice of a system with `codec="auto"`; empty: the system has a fixed codec."""
    steps_to_choose: int = 0

    @property
    def compute_ratio(self) -> float:
        """The ratio of a step to computing alone: the median over pairs."""
        return statistics.median(mine / alone for mine, alone in zip(self.seconds, self.alone_seconds, strict=True))
