# SPDX-License-Identifier: Apache-2.0
"""The average that DistributedDataParallel makes without a hook, to the bit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist

from hipress.torch.process_groups.stage import Stage


@dataclass
class _Started:
    work: dist.Work
    result: torch.futures.Future[torch.Tensor]
    ended: Callable[[torch.Tensor | None], None]


class ExactAverage:
    """Averages buckets as they are, over the model's own group.

    A separate thread completes the buckets. A callback in Python would run on Gloo's thread, which needs Python's lock
    to free the callback; a program that ends its group right after the last step holds this lock while it waits for
    that thread.
    """

    def __init__(self, group: dist.ProcessGroup) -> None:
        self._group = group
        self._ending = Stage("hipress exact", _end)

    def close(self) -> None:
        """Ends the thread, when the buckets that have started are done."""
        self._ending.close()

    def start(
        self, buffer: torch.Tensor, ended: Callable[[torch.Tensor | None], None] | None = None
    ) -> torch.futures.Future[torch.Tensor]:
        """Starts averaging a bucket's buffer, dense or sparse, in place. Like torch, it multiplies before it adds.
        `ended` gets the average before the future does, or None if there is none."""
        buffer.mul_(1.0 / dist.get_world_size(self._group))
        work = dist.all_reduce(buffer, group=self._group, async_op=True)
        assert work is not None
        if buffer.is_cuda:  # NCCL's futures run no Python on a thread that ends with the group
            summed: torch.futures.Future[torch.Tensor] = work.get_future().then(lambda done: _value(done, ended))
            return summed
        result: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        self._ending.put(_Started(work, result, ended or _ignore))
        return result


def _end(started: _Started) -> None:
    try:
        started.work.wait()
        average = _value(started.work.get_future(), started.ended)
        started.result.set_result(average)
    except RuntimeError as error:
        started.ended(None)
        started.result.set_exception(error)  # type: ignore[arg-type]


def _value(
    done: torch.futures.Future[list[torch.Tensor]], ended: Callable[[torch.Tensor | None], None] | None
) -> torch.Tensor:
    (average,) = done.value()
    if ended is not None:
        ended(average)
    return average


def _ignore(_: torch.Tensor | None) -> None:
    """Nobody wants to know."""
