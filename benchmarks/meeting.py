# SPDX-License-Identifier: Apache-2.0
"""Where a benchmark's ranks wait for each other and tell each other what they found, beside what is measured."""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from typing import TypeVar

T = TypeVar("T")


class Meeting(ABC):
    """Of all ranks; each does the same in the same order."""

    rank: int
    world: int

    @abstractmethod
    def gather(self, mine: T) -> list[T]:
        """What each rank has, by rank."""

    @abstractmethod
    def barrier(self) -> None:
        """Returns when all ranks have called it."""


class HipressMeeting(Meeting):
    """Over the connections with which HiPress' ranks agree; it runs."""

    def __init__(self) -> None:
        # Not at the top: torch's environment of Horovod has no HiPress.
        from hipress import runtime

        self._engine = runtime.current().engine
        self.rank, self.world = runtime.rank(), runtime.size()

    def gather(self, mine: T) -> list[T]:
        return [pickle.loads(each) for each in self._engine.allgather("benchmark", pickle.dumps(mine))]

    def barrier(self) -> None:
        self._engine.allgather("benchmark", b"")
