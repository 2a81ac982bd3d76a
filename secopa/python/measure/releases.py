# SPDX-License-Identifier: Apache-2.0
"""When backward has each gradient, from steps that are really trained."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from hipress.secopa.gradients import GradientSet
from hipress.secopa.measure.samples import rounded


class ReleaseTimes:
    """Filled by whoever sees gradients become complete, step by step; for one thread at a time.

    The clock starts with began(), or with a step's first gradient where nobody sees backward begin: times are then
    from that on, as nothing can be sent before.
    """

    def __init__(self, names: list[str], clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._seconds: dict[str, list[float]] = {name: [] for name in names}
        self._backward: list[float] = []
        self._start: float | None = None

    @property
    def steps(self) -> int:
        """How many have ended."""
        return len(self._backward)

    def began(self) -> None:
        """Backward begins."""
        self._start = self._clock()

    def released(self, name: str) -> None:
        """The gradient is complete."""
        now = self._clock()
        if self._start is None:
            self._start = now
        self._seconds[name].append(now - self._start)

    def ended(self) -> None:
        """Backward has ended. A step in which nothing was released does not count."""
        if self._start is not None:
            self._backward.append(self._clock() - self._start)
        self._start = None

    def on(self, gradients: GradientSet) -> GradientSet:
        """With the medians of all steps. A gradient that never came has no time.

        Raises KeyError for a gradient of another name."""
        backward_s = statistics.median(self._backward) if self._backward else 0.0
        timed = tuple(
            gradient.model_copy(update={"release_s": self._median(gradient.name, backward_s)})
            for gradient in gradients.gradients
        )
        return gradients.model_copy(
            update={
                "gradients": timed,
                "backward_s": rounded(backward_s),
                "measured": f"in training, median of {self.steps} steps",
            }
        )

    def _median(self, name: str, backward_s: float) -> float | None:
        seconds = self._seconds[name]
        # Medians of different steps: one gradient's may be a little behind the end.
        return rounded(min(statistics.median(seconds), backward_s)) if seconds else None
