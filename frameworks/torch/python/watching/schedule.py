# SPDX-License-Identifier: Apache-2.0
"""In which steps averages are watched: in windows, soon after the start and ever less often."""

from __future__ import annotations

from dataclasses import dataclass

from hipress.errors import InvalidArgument


@dataclass(frozen=True)
class Schedule:
    """Windows of `window` steps. The first one begins after as many steps, each later one when the training has
    doubled its steps, and then every `every` steps."""

    every: int
    window: int

    def __post_init__(self) -> None:
        if self.window < 2:
            raise InvalidArgument(f"window={self.window}: a window has 2 steps or more, whose errors add up")
        if self.every < 2 * self.window:
            raise InvalidArgument(
                f"every={self.every} with window={self.window}: give at least {2 * self.window}, twice the window"
            )

    def begins(self, step: int) -> bool:
        """Whether a window begins after so many steps."""
        return step > 0 and step == self._last_start(step)

    def _last_start(self, step: int) -> int:
        """Where the last window begins up to this step; 0: before the first one."""
        if step >= self.every:
            return step // self.every * self.every
        start = 0
        following = self.window
        while following <= step:
            start, following = following, 2 * following
        return start
