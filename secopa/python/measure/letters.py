# SPDX-License-Identifier: Apache-2.0
"""Messages from one rank to another over CaSync's own transport, while nobody else has anything to say.

Each is an alltoall in which all other blocks are empty. An alltoall ends on a rank when it has everybody's block; so
those with nothing to send begin theirs beforehand, and what is left is one message.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from hipress import _core
from hipress.secopa.measure.session import Session


class Pair(NamedTuple):
    """Two ranks."""

    source: int
    destination: int

    @property
    def back(self) -> Pair:
        return Pair(self.destination, self.source)


class Letters:
    """Messages of one size, as tensors that all ranks have declared.

    Arguments:
        size: bytes of each.
        ways: from whom to whom each of them goes: one pair, or both ways at the same time.
        count: how many there are.
        at_once: how many are under way at a time, each with memory of its own.
    """

    def __init__(self, session: Session, size: int, ways: Collection[Pair], count: int, at_once: int = 1) -> None:
        rank, others = session.rank, range(session.world)
        sent = [size if Pair(rank, other) in ways else 0 for other in others]
        received = [size if Pair(other, rank) in ways else 0 for other in others]
        self._engine = session.engine
        #: Whether this rank is the one, or one of the two, that sends.
        self.sends = any(way.source == rank for way in ways)
        self._given = np.zeros((at_once, sum(sent)), np.uint8)
        self._taken = np.zeros((at_once, sum(received)), np.uint8)
        specs = [
            _core.TensorSpec(
                session.numbered("message"),
                collective="alltoall",
                dtype="uint8",
                count=sum(sent),
                shape="[*]",
                sent=sent,
                received=received,
                transient=True,
            )
            for _ in range(count)
        ]
        self._handles = self._engine.declare(specs)
        self._operations: dict[int, int] = {}

    def begin(self) -> None:
        """All of them, where this rank only receives or has no part."""
        if not self.sends:
            for index in range(len(self._handles)):
                self.send(index)

    def send(self, index: int) -> None:
        place = index % len(self._given)
        operation = self._engine.submit(self._handles[index], self._given[place], self._taken[place])
        self._operations[index] = operation

    def receive(self, index: int) -> None:
        """Waits until it is there; on other ranks, until it has nothing to do with them any more."""
        self._engine.wait(self._operations.pop(index))

    def end(self) -> None:
        """Waits for those that nobody has waited for."""
        for index in sorted(self._operations, reverse=True):
            self.receive(index)
