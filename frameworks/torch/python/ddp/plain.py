# SPDX-License-Identifier: Apache-2.0
"""Averages of buckets without threads and groups of HiPress: for one process alone, and after `close()`."""

from __future__ import annotations

import torch
import torch.distributed as dist

from hipress.torch.installed.private_names import GradBucket


class Plain:
    """Averages as DistributedDataParallel does without a hook, and waits for each bucket.

    `group`: None: this process is the only rank.
    """

    def __init__(self, group: dist.ProcessGroup | None) -> None:
        self._group = group

    def average(
        self, bucket: GradBucket, _named: list[tuple[str, torch.Tensor]], _step: int
    ) -> torch.futures.Future[torch.Tensor]:
        """See CarrierOf."""
        return self._average(bucket.buffer())

    def average_sparse(self, buffer: torch.Tensor, _step: int) -> torch.futures.Future[torch.Tensor]:
        """See CarrierOf."""
        return self._average(buffer)

    def _average(self, buffer: torch.Tensor) -> torch.futures.Future[torch.Tensor]:
        if self._group is not None:
            buffer.mul_(1.0 / self._group.size())
            dist.all_reduce(buffer, group=self._group)
        done: torch.futures.Future[torch.Tensor] = torch.futures.Future(
            devices=[buffer.device] if buffer.is_cuda else []
        )
        done.set_result(buffer)
        return done
