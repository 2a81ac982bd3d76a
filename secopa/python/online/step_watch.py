# SPDX-License-Identifier: Apache-2.0
"""Detects that the duration of steps has changed, from medians over intervals, so that single slow steps do not
count."""

from __future__ import annotations

import statistics


class StepWatch:
    """Watches the steps that follow one plan.

    The first `settling` steps after a change do not count; the next `interval` steps define the usual duration.
    """

    def __init__(self, interval: int, *, settling: int = 2, tolerance: float = 1.25) -> None:
        self._interval = interval
        self._settling = settling
        self._tolerance = tolerance
        self._seconds: list[float] = []
        self._outside = 0
        self.usual_s: float | None = None
        """The usual duration: the median of the first interval; None before its end."""

    def add(self, seconds: float) -> bool:
        """Adds a step. Returns True if an interval is complete; the caller then calls take()."""
        if self._settling > 0:
            self._settling -= 1
            return False
        self._seconds.append(seconds)
        return len(self._seconds) == self._interval

    def take(self) -> float:
        """The median of the complete interval on this rank."""
        seconds, self._seconds = self._seconds, []
        return statistics.median(seconds)

    def has_left(self, median_s: float) -> bool:
        """Whether two intervals in a row were longer than usual, or two in a row shorter."""
        if self.usual_s is None:
            self.usual_s = median_s
            return False
        side = (median_s > self.usual_s * self._tolerance) - (median_s * self._tolerance < self.usual_s)
        self._outside = side if side * self._outside <= 0 else self._outside + side
        return abs(self._outside) >= 2
