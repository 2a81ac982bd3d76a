# SPDX-License-Identifier: Apache-2.0
"""What DistributedOptimizer tells a watcher of each synchronisation round, and what DDP's hook tells it of each
bucket."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from hipress.torch.installed.private_names import GradBucket
from hipress.torch.watching.watcher import Watcher

Named = Sequence[tuple[str, Any]]


class WatchedRounds:
    """The rounds of an optimizer. Without a watcher it does nothing."""

    def __init__(self, watcher: Watcher | None = None) -> None:
        self.watcher = watcher
        self._is_open = False

    def before(self, name: str, gradient: torch.Tensor, step: int) -> None:
        """A dense gradient is about to travel, after so many steps."""
        if self.watcher is not None:
            self._open(self.watcher, step)
            self.watcher.before(name, gradient)

    @contextmanager
    def waiting(self, named_parameters: Named, step: int) -> Iterator[None]:
        """All gradients of the round travel; within the context this rank waits for them."""
        watcher = self.watcher
        if watcher is None:
            yield
            return
        is_watched = self._open(watcher, step)
        watcher.given()
        started = time.monotonic()
        try:
            yield
        except BaseException:
            self.drop()
            raise
        self._is_open = False
        if is_watched:
            watcher.waited(time.monotonic() - started)
            for name, parameter in named_parameters:
                if parameter.grad is not None and parameter.grad.layout == torch.strided:
                    watcher.after(name, parameter.grad)

    def _open(self, watcher: Watcher, step: int) -> bool:
        if not self._is_open:
            self._is_open = True
            watcher.begin(step)
        return watcher.is_on

    def stepped(self, step: int) -> None:
        """The optimizer has taken this many steps."""
        if self.watcher is not None:
            self.watcher.end(step)

    def drop(self) -> None:
        """The round ends without its averages."""
        self._is_open = False
        if self.watcher is not None:
            self.watcher.drop()


class WatchedBuckets:
    """The buckets of DistributedDataParallel."""

    def __init__(self, watcher: Watcher) -> None:
        self.watcher = watcher
        self._ended = self._given = 0.0

    def average(
        self,
        bucket: GradBucket,
        named: list[tuple[str, torch.Tensor]],
        step: int,
        start: Callable[[], torch.futures.Future[torch.Tensor]],
    ) -> torch.futures.Future[torch.Tensor]:
        """Starts the average of a bucket by `start`."""
        if bucket.index() == 0:
            if self.watcher.is_on:
                self.watcher.waited(max(0.0, self._ended - self._given))
            self._ended = self._given = 0.0
            self.watcher.begin(step)
        if not self.watcher.is_on:
            return start()
        for name, gradient in named:
            self.watcher.before(name, gradient)

        def after(done: torch.futures.Future[torch.Tensor]) -> torch.Tensor:
            result = done.value()
            for name, average in named:
                self.watcher.after(name, average)
            self._ended = time.monotonic()
            return result

        averaged = start().then(after)
        if bucket.is_last():
            self.watcher.given()
            self._given = time.monotonic()
        return averaged
