# SPDX-License-Identifier: Apache-2.0
"""Chooses among ways of sending gradients by real training steps with each of them in turn.

No model stands between measuring and choosing: a step's time has the user's own load, devices and collectives in it.
All ways are right for the training, so no step is lost; what a race costs is the time of steps with slower ways. So
the race begins with the fewest bytes, leaves out a way whose messages alone take longer than another's whole step, and
in each round goes on with the ways that are still near the fastest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Way:
    """How gradients may travel."""

    codec: str
    topology: str
    sent_bytes: float
    """Of a step, in bytes of a sum without a codec that takes as long."""

    def __str__(self) -> str:
        return self.codec if self.codec == "none" else f"{self.codec} over {self.topology}"


@dataclass(frozen=True)
class Block:
    """Steps in a row with one way."""

    way: int
    settling: int
    """The first ones, which are not counted: memory is touched for the first time."""
    counted: int

    @property
    def steps(self) -> int:
        """All of them."""
        return self.settling + self.counted


@dataclass(frozen=True)
class _Round:
    counted: int
    keep: float
    """Ways that take at most this multiple of the fastest one's time are in the next round."""
    most: int
    """And so many at most."""


_ROUNDS = (_Round(1, 1.5, 4), _Round(3, 1.15, 2), _Round(3, 1.0, 1))
#: A step takes the time of its messages at least, with some doubt in both.
_DOUBT = 1.5
#: Times within this factor are equal: the more exact way is chosen.
EQUAL = 1.03


class Race:
    """A race of ways, the most exact one first. Its blocks are the same on all ranks, who give the same times.

    Arguments:
        ways: at least one.
        seconds_per_byte: of a sum over all ranks.
        begins_after: steps before the first one counts.
    """

    def __init__(self, ways: Sequence[Way], seconds_per_byte: float, begins_after: int) -> None:
        self.ways = tuple(ways)
        self._seconds_per_byte = seconds_per_byte
        self._times: list[float] = [math.inf] * len(ways)
        self._round = 0
        self._waiting = sorted(range(len(ways)), key=lambda way: (ways[way].sent_bytes, -way))
        #: Steps that were taken.
        self.steps = 0
        self.block = self._next(begins_after) if len(ways) > 1 else None
        """The steps to take next; None: the race is over."""

    def ended(self, seconds: float) -> None:
        """The median of the counted steps of the block."""
        assert self.block is not None
        way = self.block.way
        # Other work of the machine only makes steps longer.
        self._times[way] = min(self._times[way], seconds)
        self.steps += self.block.steps
        self.block = self._next(1)

    @property
    def seconds(self) -> dict[int, float]:
        """The time of a step by way; ways that were left out have none."""
        return {way: time for way, time in enumerate(self._times) if math.isfinite(time)}

    @property
    def choice(self) -> int:
        """The fastest way, or a more exact one that is as fast."""
        return self._best(range(len(self.ways)))

    @property
    def runner_up(self) -> int | None:
        """The best of the others that were tried."""
        others = [way for way in self.seconds if way != self.choice]
        return self._best(others) if others else None

    def _best(self, among: Sequence[int]) -> int:
        fastest = min(self._times[way] for way in among)
        return next(way for way in among if self._times[way] <= fastest * EQUAL)

    def _next(self, settling: int) -> Block | None:
        while True:
            now = _ROUNDS[self._round]
            while self._waiting:
                way = self._waiting.pop(0)
                if self._round or not self._is_hopeless(way):
                    return Block(way, settling, now.counted)
            fastest = min(self._times)
            near = sorted((way for way, time in self.seconds.items() if time <= fastest * now.keep), key=self._order)
            self._round += 1
            if len(near) == 1 or self._round == len(_ROUNDS):
                return None
            self._waiting = near[: now.most]

    def _order(self, way: int) -> float:
        return self._times[way]

    def _is_hopeless(self, way: int) -> bool:
        return self._least(way) > min(self._times) * _DOUBT

    def _least(self, way: int) -> float:
        return self.ways[way].sent_bytes * self._seconds_per_byte
