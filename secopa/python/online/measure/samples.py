# SPDX-License-Identifier: Apache-2.0
"""Repeated measurements: their median is robust against other work that lengthens single samples."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

from hipress.secopa.profile.curves import CostPoint

#: Shortest sample (seconds): shorter actions are repeated in a sample, so that the cost of the clock does not count.
_SHORTEST_SAMPLE = 1e-4
_LEAST, _MOST = 3, 40


def sampled(action: Callable[[], object], budget_s: float, clock: Callable[[], float]) -> list[float]:
    """Seconds of `action` by `clock`: at least three samples, and more within `budget_s`."""
    return sampled_in_turn([action], budget_s, clock)[0]


def sampled_in_turn(
    actions: Sequence[Callable[[], object]], budget_s: float, clock: Callable[[], float]
) -> list[list[float]]:
    """sampled() for several actions that alternate, so that each finds the caches in the state the others left."""
    end = time.perf_counter() + budget_s
    calls = [_calls(action, clock) for action in actions]
    samples: list[list[float]] = [[] for _ in actions]
    while len(samples[0]) < _LEAST or (len(samples[0]) < _MOST and time.perf_counter() < end):
        for action, count, taken in zip(actions, calls, samples, strict=True):
            start = clock()
            for _ in range(count):
                action()
            taken.append((clock() - start) / count)
    return samples


def _calls(action: Callable[[], object], clock: Callable[[], float]) -> int:
    """Number of calls per sample."""
    action()  # warms caches up
    start = clock()
    action()
    return max(1, int(_SHORTEST_SAMPLE / max(clock() - start, 1e-9)))


def cost_point(size: int, samples: Sequence[float], call_s: float = 0.0) -> CostPoint:
    """The point of a curve. `call_s`: cost of the call from Python, which the engine does not have."""
    seconds = [max(0.0, sample - call_s) for sample in samples]
    return CostPoint(
        bytes=size,
        median_s=rounded(statistics.median(seconds)),
        smallest_s=rounded(min(seconds)),
        largest_s=rounded(max(seconds)),
    )


def rounded(value: float) -> float:
    """Four significant digits; further digits are noise."""
    return float(f"{value:.4g}")
