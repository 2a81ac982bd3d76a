# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own ways to average gradients, as DistributedDataParallel uses them: in buckets, over Gloo.

DDP copies each gradient into a bucket when backward has it and starts the bucket's operation when it is full: 1 MiB in
the first, so that sending starts early, 25 MiB in the others. At the end it waits and copies the averages back. All
this is done here, without the model around it. Gradients of a usual model do not live in the buckets (DDP's
gradient_as_bucket_view, off by default), so both copies are part of the time.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from sync_release import Release
from sync_systems import System
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

#: DDP's: the first bucket's, and all others'.
_LIMITS = [1 << 20, 25 << 20]


@dataclass(frozen=True)
class Bucket:
    """Gradients that travel as one; the methods are those of torch.distributed.GradBucket that hooks call."""

    number: int
    last: bool
    members: list[int]
    memory: torch.Tensor
    views: list[torch.Tensor]

    def index(self) -> int:
        """Its place in the order in which buckets are filled."""
        return self.number

    def buffer(self) -> torch.Tensor:
        """All gradients, flat."""
        return self.memory

    def gradients(self) -> list[torch.Tensor]:
        """Views of the buffer with the shapes of the gradients."""
        return self.views

    def is_last(self) -> bool:
        """Whether none comes after it in a backward pass."""
        return self.last


def make_buckets(tensors: Sequence[torch.Tensor], order: Sequence[int]) -> list[Bucket]:
    """DDP's buckets, as it makes them after the first backward pass has told the order."""
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
    """Fills buckets and empties them; what happens to a full one is the subclass'."""

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
        """Starts the average of a full bucket; what waits until its buffer holds it."""


class GlooFp32(Bucketed):
    """Without a communication hook: gradients are divided as they are copied, then summed."""

    name = "gloo-fp32"
    codec = "none"

    def _fill(self, view: torch.Tensor, gradient: torch.Tensor) -> None:
        torch.mul(gradient, 1.0 / dist.get_world_size(), out=view)

    def _start(self, bucket: Bucket) -> Callable[[], object]:
        work: dist.Work = dist.all_reduce(bucket.memory, async_op=True)
        return work.wait


class GlooFp16(Bucketed):
    """With DDP's fp16_compress_hook."""

    name = "gloo-fp16"
    codec = "fp16"

    def _start(self, bucket: Bucket) -> Callable[[], object]:
        hook: Any = default_hooks.fp16_compress_hook
        future: torch.futures.Future[Any] = hook(None, bucket)
        return future.wait


class PowerSgd(Bucketed):
    """With DDP's powerSGD_hook of rank 1, its usual one, from the first synchronisation on.

    One bucket at a time: the hook starts its later operations from Gloo's threads, and those of two buckets would
    start in an order that differs between ranks.
    """

    name = "powersgd"
    codec = "powersgd(rank=1)"

    def __init__(self, buckets: list[Bucket]) -> None:
        super().__init__(buckets)
        self._state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2)
        # The plain all-reduces before are for DDP's first pass, whose buckets are others.
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
