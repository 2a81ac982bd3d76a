# SPDX-License-Identifier: Apache-2.0
"""Who is measured by sync.py: each system averages a list of float32 tensors over all ranks, in place.

Ours is here, the others are in sync_peers.py and sync_horovod.py. To measure another codec or topology, add nothing:
`Ours` takes any that the installed HiPress has.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace

import torch
from sync_job import Job
from sync_release import Release


class System(ABC):
    """One way to average."""

    name: str
    codec: str
    topology: str | None = None

    @abstractmethod
    def average(self, tensors: Sequence[torch.Tensor], release: Release) -> None:
        """Replace the values by their average over the ranks, taking tensors as they are released; returns when all
        averages are there."""

    def bytes_sent(self) -> int | None:
        """Of this rank since the start; None: it does not count."""
        return None


class Ours(System):
    """What `DistributedOptimizer` does with the gradients of a model."""

    topology: str

    def __init__(self, job: Job, codec: str, topology: str, tensors: Sequence[torch.Tensor]) -> None:
        # Not at the top: peers that run in an environment of their own have no HiPress there.
        from hipress.synchronizer import SynchronizationOptions
        from hipress.torch.synchronizer import GradientSynchronizer

        self.name = f"hipress {codec}"
        self.codec = codec
        self.topology = topology
        options = SynchronizationOptions(codec=codec, topology=topology, partitions=job.partitions)
        if job.min_compress_bytes is not None:
            options = replace(options, min_compress_bytes=job.min_compress_bytes)
        #: Smaller tensors travel as they are.
        self.min_compress_bytes = options.min_compress_bytes
        # In the order of registration: earlier ones have priority. Two systems' tensors need different names.
        named = [
            (f"{codec} {topology} {gradient.name}", tensor)
            for gradient, tensor in zip(job.gradients.gradients, tensors, strict=True)
        ]
        self._synchronizer = GradientSynchronizer(named, options)

    def average(self, tensors: Sequence[torch.Tensor], release: Release) -> None:
        handles = [self._synchronizer.submit(index, tensors[index]) for index in release.gradients()]
        for handle in handles:
            self._synchronizer.wait(handle)

    def bytes_sent(self) -> int:
        from hipress import runtime

        return runtime.counters()["bytes_sent"]
