# SPDX-License-Identifier: Apache-2.0
"""Lets the ranks of a benchmark wait for each other and exchange results, without the measured system."""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from typing import TypeVar

T = TypeVar("T")


class Meeting(ABC):
    """A meeting of all ranks, which make the same calls in the same order."""

    rank: int
    world: int

    @abstractmethod
    def gather(self, mine: T) -> list[T]:
        """The values of all ranks, in rank order."""

    @abstractmethod
    def barrier(self) -> None:
        """Returns when all ranks have called it."""


class HipressMeeting(Meeting):
    """A meeting over HiPress' control plane; HiPress must run."""

    def __init__(self) -> None:
        # Imported here, because the environment of Horovod has no HiPress.
        from hipress import runtime

        self._engine = runtime.current().engine
        self.rank, self.world = runtime.rank(), runtime.size()

    def gather(self, mine: T) -> list[T]:
        return [pickle.loads(each) for each in self._engine.allgather("benchmark", pickle.dumps(mine))]

    def barrier(self) -> None:
        self._engine.allgather("benchmark", b"")
