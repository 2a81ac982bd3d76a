# SPDX-License-Identifier: Apache-2.0
"""Who is measured by sync.py: each system averages one float32 tensor over all ranks, in place.

To measure another, add it to `PEERS`, or nothing at all if it is a codec: `Ours` takes any.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
import torch.distributed as dist

from hipress import runtime
from hipress.torch.synchronizer import GradientSynchronizer, SynchronizationOptions

#: Largest relative L2 error of one synchronisation of Gaussian values against the exact average. Rounding of float32;
#: two roundings to 11 bits; onebit keeps a sign and two means, twice, and 1 would be no better than sending zeros (what
#: it drops comes with the next steps). A codec without an entry must give finite values and have its error reported.
TOLERANCES = {"none": 1e-6, "fp16": 2e-3, "onebit": 0.95}


class System(ABC):
    """One way to average."""

    name: str
    codec: str
    topology: str | None = None

    @property
    def tolerance(self) -> float | None:
        """The largest error that is no mistake; None: not known."""
        return TOLERANCES.get(self.codec.partition("(")[0])

    @abstractmethod
    def average(self, tensor: torch.Tensor) -> None:
        """Replace the values by their average over the ranks; returns when they are there."""

    def bytes_sent(self) -> int | None:
        """Of this rank since the start; None: it does not count."""
        return None


class Ours(System):
    """What `DistributedOptimizer` does with each gradient."""

    def __init__(self, codec: str, topology: str, partitions: int, tensor: torch.Tensor) -> None:
        self.name = f"hipress {codec}"
        self.codec = codec
        self.topology = topology
        options = SynchronizationOptions(codec=codec, topology=topology, partitions=partitions)
        self._synchronizer = GradientSynchronizer([(f"gradient of {codec}", tensor)], options)

    def average(self, tensor: torch.Tensor) -> None:
        self._synchronizer.wait(self._synchronizer.submit(0, tensor))

    def bytes_sent(self) -> int:
        return runtime.counters()["bytes_sent"]


class Gloo(System):
    """What DistributedDataParallel does with each bucket, without a communication hook."""

    name = "gloo"
    codec = "none"

    def average(self, tensor: torch.Tensor) -> None:
        # Before the sum, as DDP does it.
        tensor.div_(dist.get_world_size())
        dist.all_reduce(tensor)


class GlooHalf(System):
    """What DistributedDataParallel does with each bucket under its `fp16_compress_hook`."""

    name = "gloo-fp16"
    codec = "fp16"

    def average(self, tensor: torch.Tensor) -> None:
        compressed = tensor.to(torch.float16).div_(dist.get_world_size())
        dist.all_reduce(compressed)
        tensor.copy_(compressed)


PEERS: dict[str, Callable[[], System]] = {"gloo": Gloo, "gloo-fp16": GlooHalf}
