# SPDX-License-Identifier: Apache-2.0
"""The memory of collectives, which averages use again: fresh memory costs a page fault for every 4 KiB.

All averages of a step share it: it is as large as the messages on their way.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from hipress.torch.process_groups.side import Side

#: So many arenas may be in use, however large they are: one is on its way while others are encoded, averaged, decoded.
_LEAST = 4


@dataclass
class _Arena:
    memory: torch.Tensor
    step: int
    mark: Any = None
    """Of the work that used it last."""

    @property
    def bytes(self) -> int:
        return self.memory.numel()


class Arenas:
    """Arenas for programs of any size. One thread takes them, and another may give them back.

    Arguments:
        most_bytes: with more than a few arenas, all together have no more; take() then waits for one.
    """

    def __init__(self, side: Side, most_bytes: int, *, least: int = _LEAST) -> None:
        self._side, self._most_bytes, self._least = side, most_bytes, least
        self._free: list[_Arena] = []  # in the order in which they came back
        self._used: dict[int, _Arena] = {}  # by address
        self._changed = threading.Condition()

    def take(self, size: int, step: int, clear: Callable[[torch.Tensor], None]) -> torch.Tensor:
        """So many bytes for an average of this step; they are those of an earlier average, or `clear` has cleared them.

        Waits as long as there is too much in use, for what other threads give back: collectives have deadlines.
        """
        if size == 0:
            return torch.empty(0, dtype=torch.uint8, device=self._side.device)
        with self._changed:
            arena = self._found(size)
            while arena is None and not self._has_room(size) and self._used:
                self._changed.wait()
                arena = self._found(size)
            if arena is None:
                made = torch.empty(size, dtype=torch.uint8, device=self._side.device)
                clear(made)
                self._side.used_by_all(made)
                arena = _Arena(made, step)
            self._side.wait_for(arena.mark)
            arena.step = step
            self._used[arena.memory.data_ptr()] = arena
            return arena.memory[:size]

    def give_back(self, taken: torch.Tensor) -> None:
        """No collective reads or writes it after the current stage's work so far."""
        if taken.numel() == 0:
            return
        with self._changed:
            arena = self._used.pop(taken.data_ptr())
            arena.mark = self._side.settled()
            self._free.append(arena)
            self._changed.notify()

    def drop(self, taken: torch.Tensor) -> None:
        """Its average has failed: a collective may still use it."""
        with self._changed:
            self._used.pop(taken.data_ptr(), None)
            self._changed.notify()

    def forget_unused(self, step: int) -> None:
        """Frees what no average has needed since `step`: DistributedDataParallel forms other buckets after its first
        step."""
        with self._changed:
            self._free = [arena for arena in self._free if arena.step >= step]

    @property
    def bytes(self) -> int:
        """Of all arenas."""
        return sum(arena.bytes for arena in [*self._free, *self._used.values()])

    def _found(self, size: int) -> _Arena | None:
        """The smallest free arena that suffices. One whose work is not done is taken only if there must be no more."""
        fitting = [arena for arena in self._free if arena.bytes >= size]
        done = [arena for arena in fitting if self._side.is_past(arena.mark)]
        if not done and self._may_grow(size):
            return None
        best = min(done, key=lambda arena: arena.bytes) if done else next(iter(fitting), None)
        if best is not None:
            self._free = [arena for arena in self._free if arena is not best]
        return best

    def _may_grow(self, size: int) -> bool:
        return len(self._free) + len(self._used) < self._least or self.bytes + size <= self._most_bytes

    def _has_room(self, size: int) -> bool:
        """Frees arenas that are too small for `size` until there may be one more; returns whether there may."""
        while self._free and not self._may_grow(size):
            self._free.pop(0)
        return self._may_grow(size)
