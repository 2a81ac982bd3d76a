# SPDX-License-Identifier: Apache-2.0
"""The average that DistributedDataParallel makes without a hook, to the bit."""

from __future__ import annotations

import torch
import torch.distributed as dist

from hipress.torch.process_groups.followed import Ended, Followed


class ExactAverage:
    """Averages buckets as they are, over the model's own group."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        self._group = group
        self._followed = Followed("hipress exact")

    def close(self) -> None:
        """Ends the thread, when the buckets that have started are done."""
        self._followed.close()

    def start(self, buffer: torch.Tensor, ended: Ended = None) -> torch.futures.Future[torch.Tensor]:
        """Starts averaging a bucket's buffer, dense or sparse, in place. Like torch, it multiplies before it adds.
        `ended` gets the average before the future does, or None if there is none."""
        buffer.mul_(1.0 / dist.get_world_size(self._group))
        work = dist.all_reduce(buffer, group=self._group, async_op=True)
        assert work is not None
        return self._followed.future(work, buffer, ended)
