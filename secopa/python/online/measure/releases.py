# SPDX-License-Identifier: Apache-2.0
"""Release times: the times at which backward completes each gradient, measured in training steps."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from hipress.secopa.online.measure.samples import rounded
from hipress.secopa.profile.gradients import GradientSet


class ReleaseTimes:
    """Collects release times step by step. Only one thread at a time may call it.

    The clock starts at began(). Without that call it starts at the first gradient of a step, because no message can be
    sent before it.
    """

    def __init__(self, names: list[str], clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._seconds: dict[str, list[float]] = {name: [] for name in names}
        self._backward: list[float] = []
        self._start: float | None = None

    @property
    def steps(self) -> int:
        """Number of complete steps."""
        return len(self._backward)

    def began(self) -> None:
        """Notes that backward begins."""
        self._start = self._clock()

    def released(self, name: str) -> None:
        """Notes that backward has completed the gradient."""
        now = self._clock()
        if self._start is None:
            self._start = now
        self._seconds[name].append(now - self._start)

    def ended(self) -> None:
        """Notes that backward has ended. A step without any released gradient does not count."""
        if self._start is not None:
            self._backward.append(self._clock() - self._start)
        self._start = None

    def on(self, gradients: GradientSet) -> GradientSet:
        """These gradients with the medians of their release times. A gradient that was never released has no time.

        Raises KeyError for a gradient of an unknown name.
        """
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
        # The medians may be of different steps, so a gradient's median may lie after the end of backward.
        return rounded(min(statistics.median(seconds), backward_s)) if seconds else None
