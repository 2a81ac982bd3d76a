# SPDX-License-Identifier: Apache-2.0
"""The systems of sync.py. Each system averages a list of float32 tensors over all ranks, in place.

HiPress is here; the peers are in torch_peers.py and horovod_peer.py. A new codec or topology of HiPress needs no change
here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace

import torch

from benchmarks.harness.release import Release
from benchmarks.sync.job import Job


class System(ABC):
    """A system that averages gradients."""

    name: str
    codec: str
    topology: str | None = None

    @abstractmethod
    def average(self, tensors: Sequence[torch.Tensor], release: Release) -> None:
        """Replaces the values by their average over the ranks. It takes tensors as they are released, and returns when
        all averages are complete."""

    def bytes_sent(self) -> int | None:
        """Bytes that this rank has sent since the start; None if the system does not count them."""
        return None


class Ours(System):
    """HiPress' engine, used as `DistributedOptimizer` uses it."""

    topology: str

    def __init__(self, job: Job, codec: str, topology: str, tensors: Sequence[torch.Tensor]) -> None:
        # Imported here, because the environments of peers have no HiPress.
        from hipress.adapter.synchronizer import SynchronizationOptions
        from hipress.torch.synchronizer import GradientSynchronizer

        self.name = f"hipress {codec}"
        self.codec = codec
        self.topology = topology
        options = SynchronizationOptions(codec=codec, topology=topology, partitions=job.partitions)
        if job.min_compress_bytes is not None:
            options = replace(options, min_compress_bytes=job.min_compress_bytes)
        #: Smaller tensors stay uncompressed.
        self.min_compress_bytes = options.min_compress_bytes
        # Tensors are in the order of registration, which is their priority. The names of two systems must differ.
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
