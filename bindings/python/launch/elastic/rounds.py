# SPDX-License-Identifier: Apache-2.0
"""The processes of a world that have come to their next exchange, and how long they wait for the others.

A training with an exchange every many steps asks before each one who takes part. The others wait for a late process
only a share of the time that they have computed, so the window follows the length of the training's steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

#: Seconds for which the others wait at least.
LEAST_GRACE = 1.0


@dataclass(frozen=True)
class RoundTerms:
    """When an exchange begins without late processes."""

    quorum: int
    """So many must be there."""
    grace: float
    """They wait this share of the time since the last exchange, and at least LEAST_GRACE."""
    most_late: int
    """So many exchanges may be without a process; the next one waits for it."""


class Rounds:
    """One round: from the first process that comes to the answer that all get."""

    def __init__(self) -> None:
        self._last = 0.0
        self.here: set[int] = set()
        """The processes that have come."""
        self.end = math.inf
        """When the others have had their time."""
        self.most_late = 0
        """See RoundTerms. 0: no process of this round still trains, so they end together with the late ones."""

    def begin_world(self, now: float) -> None:
        """Its processes compute from now on."""
        self.clear()
        self._last = now

    def come(self, number: int, terms: RoundTerms | None, now: float) -> None:
        """A process has come, whose training goes on with these terms, or has ended (None)."""
        self.here.add(number)
        if terms is None:
            return
        self.most_late = max(self.most_late, terms.most_late)
        if terms.quorum and len(self.here) >= terms.quorum:
            self.end = min(self.end, now + max(LEAST_GRACE, terms.grace * (now - self._last)))

    def ended(self, now: float) -> None:
        """The processes take part in the exchange, and compute again."""
        self._last = now

    def clear(self) -> None:
        """All processes have their answer."""
        self.here.clear()
        self.end, self.most_late = math.inf, 0
