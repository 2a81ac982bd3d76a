# SPDX-License-Identifier: Apache-2.0
"""The peers of PyTorch: averaging as in DistributedDataParallel, in buckets over Gloo.

DDP copies each released gradient into a bucket, and starts the bucket's operation when it is full. The first bucket has
1 MiB, so that sending starts early; the others have 25 MiB. At the end DDP waits and copies the averages back. This
module does the same without a model. By default gradients are not in the buckets (gradient_as_bucket_view is off), so
both copies are part of the time.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

from benchmarks.harness.release import Release
from benchmarks.sync.systems import System

#: Sizes of DDP's first bucket and of the others.
_LIMITS = [1 << 20, 25 << 20]


@dataclass(frozen=True)
class Bucket:
    """A bucket of gradients, with the methods of torch.distributed.GradBucket that hooks call."""

    number: int
    last: bool
    members: list[int]
    memory: torch.Tensor
    views: list[torch.Tensor]

    def index(self) -> int:
        """The number of the bucket in the order of filling."""
        return self.number

    def buffer(self) -> torch.Tensor:
        """All gradients, flat."""
        return self.memory

    def gradients(self) -> list[torch.Tensor]:
        """Views of the buffer with the shapes of the gradients."""
        return self.views

    def is_last(self) -> bool:
        """Whether it is the last bucket of a backward pass."""
        return self.last


def make_buckets(tensors: Sequence[torch.Tensor], order: Sequence[int]) -> list[Bucket]:
    """The buckets that DDP makes after the first backward, which determines the order."""
    arriving = [tensors[index] for index in order]
    groups, _ = dist._compute_bucket_assignment_by_size(  # type: ignore[attr-defined]
        arriving, _LIMITS, [False] * len(arriving)
    )
    buckets = []
    for number, group in enumerate(groups):
        members = [order[position] for position in group]
        counts = [tensors[index].numel() for index in members]
        memory = torch.zeros(sum(counts))
        views = [part.view(tensors[index].shape) for part, index in zip(memory.split(counts), members, strict=True)]
        buckets.append(Bucket(number, number == len(groups) - 1, members, memory, views))
    return buckets


class Bucketed(System):
    """Fills and empties buckets; a subclass averages a full bucket."""

    def __init__(self, buckets: list[Bucket]) -> None:
        self._buckets = buckets
        self._place = {
            index: (bucket, view)
            for bucket in buckets
            for index, view in zip(bucket.members, bucket.views, strict=True)
        }

    def average(self, tensors: Sequence[torch.Tensor], release: Release) -> None:
        missing = [len(bucket.members) for bucket in self._buckets]
        finish: list[Callable[[], object]] = []
        for index in release.gradients():
            bucket, view = self._place[index]
            self._fill(view, tensors[index])
            missing[bucket.number] -= 1
            if missing[bucket.number] == 0:
                finish.append(self._start(bucket))
        for bucket, wait in zip(self._buckets, finish, strict=True):
            wait()
            for index, view in zip(bucket.members, bucket.views, strict=True):
                tensors[index].copy_(view)

    def _fill(self, view: torch.Tensor, gradient: torch.Tensor) -> None:
        view.copy_(gradient)

    @abstractmethod
    def _start(self, bucket: Bucket) -> Callable[[], object]:
        """Starts the average of a full bucket. Returns a function that waits for its end."""


class GlooFp32(Bucketed):
    """DDP without a communication hook: gradients are divided while they are copied, and then summed."""

    name = "gloo-fp32"
    codec = "none"

    def _fill(self, view: torch.Tensor, gradient: torch.Tensor) -> None:
        torch.mul(gradient, 1.0 / dist.get_world_size(), out=view)

    def _start(self, bucket: Bucket) -> Callable[[], object]:
        work: dist.Work = dist.all_reduce(bucket.memory, async_op=True)
        return work.wait


class GlooFp16(Bucketed):
    """DDP with its fp16_compress_hook."""

    name = "gloo-fp16"
    codec = "fp16"

    def _start(self, bucket: Bucket) -> Callable[[], object]:
        hook: Any = default_hooks.fp16_compress_hook
        future: torch.futures.Future[Any] = hook(None, bucket)
        return future.wait


class PowerSgd(Bucketed):
    """DDP with its powerSGD_hook of rank 1, the usual rank, from the first synchronisation on.

    It averages one bucket at a time: the hook starts its later operations in Gloo's threads, and with two buckets their
    order would differ between ranks.
    """

    name = "powersgd"
    codec = "powersgd(rank=1)"

    def __init__(self, buckets: list[Bucket]) -> None:
        super().__init__(buckets)
        self._state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2)
        # The hook starts with plain all-reduces for DDP's first backward, which has other buckets; skip them.
        self._state.iter = self._state.start_powerSGD_iter
        self._worker = ThreadPoolExecutor(1)

    def _start(self, bucket: Bucket) -> Callable[[], object]:
        started: Future[object] = self._worker.submit(self._average, bucket)
        return started.result

    def _average(self, bucket: Bucket) -> None:
        hook: Any = powerSGD_hook.powerSGD_hook
        hook(self._state, bucket).wait()


PEERS: dict[str, Callable[[list[Bucket]], System]] = {
    "gloo-fp32": GlooFp32,
    "gloo-fp16": GlooFp16,
    "powersgd": PowerSgd,
}
