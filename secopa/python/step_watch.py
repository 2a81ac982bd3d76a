# SPDX-License-Identifier: Apache-2.0
"""Whether steps still take what they took: from medians of some steps, so that one slow step means nothing."""

from __future__ import annotations

import statistics


class StepWatch:
    """Of steps that are alike: sent by one plan.

    The first `settling` steps after a change do not count, then `interval` steps say what is usual.
    """

    def __init__(self, interval: int, *, settling: int = 2, tolerance: float = 1.25) -> None:
        self._interval = interval
        self._settling = settling
        self._tolerance = tolerance
        self._seconds: list[float] = []
        self._outside = 0
        self.usual_s: float | None = None
        """What a step took when this began; None: not known yet."""

    def add(self, seconds: float) -> bool:
        """One more step; whether an interval is complete: take() is due."""
        if self._settling > 0:
            self._settling -= 1
            return False
        self._seconds.append(seconds)
        return len(self._seconds) == self._interval

    def take(self) -> float:
        """The median of the interval that is complete, on this rank."""
        seconds, self._seconds = self._seconds, []
        return statistics.median(seconds)

    def has_left(self, median_s: float) -> bool:
        """Whether steps take something else now: two intervals in a row, both longer or both shorter than usual."""
        if self.usual_s is None:
            self.usual_s = median_s
            return False
        side = (median_s > self.usual_s * self._tolerance) - (median_s * self._tolerance < self.usual_s)
        self._outside = side if side * self._outside <= 0 else self._outside + side
        return abs(self._outside) >= 2
