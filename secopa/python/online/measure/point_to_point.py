# SPDX-License-Identifier: Apache-2.0
"""Messages from one rank to another through the engine's transport.

Each message is an alltoall in which only one block has bytes. An alltoall ends on a rank when the rank has the blocks
of all ranks. So the other ranks submit their empty blocks in advance, and the measurement has only one message.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from hipress import _core
from hipress.secopa.online.measure.session import Session


class Pair(NamedTuple):
    """The sender and the receiver of a message."""

    source: int
    destination: int

    @property
    def back(self) -> Pair:
        return Pair(self.destination, self.source)


class PointToPoint:
    """Messages of one size, as tensors that all ranks declare.

    Arguments:
        size: bytes of each message.
        pairs: the sender and the receiver of every message; or a pair and its reverse, for both directions at once.
        count: number of messages.
        at_once: number of messages in flight at a time, each with its own memory.
    """

    def __init__(self, session: Session, size: int, pairs: Collection[Pair], count: int, at_once: int = 1) -> None:
        rank, others = session.rank, range(session.world)
        sent = [size if Pair(rank, other) in pairs else 0 for other in others]
        received = [size if Pair(other, rank) in pairs else 0 for other in others]
        self._engine = session.engine
        #: Whether this rank is a sender.
        self.sends = any(pair.source == rank for pair in pairs)
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
        """Submits all messages on a rank that sends none of them."""
        if not self.sends:
            for index in range(len(self._handles)):
                self.send(index)

    def send(self, index: int) -> None:
        """Submits a message."""
        place = index % len(self._given)
        operation = self._engine.submit(self._handles[index], self._given[place], self._taken[place])
        self._operations[index] = operation

    def receive(self, index: int) -> None:
        """Waits for a message; on a rank that does not receive it, for the end of its alltoall."""
        self._engine.wait(self._operations.pop(index))

    def end(self) -> None:
        """Waits for all remaining messages."""
        for index in sorted(self._operations, reverse=True):
            self.receive(index)
