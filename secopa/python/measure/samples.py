# SPDX-License-Identifier: Apache-2.0
"""Several measurements of one thing, of which the median counts: a busy machine makes single ones longer, not all."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

from hipress.secopa.curves import CostPoint

#: What takes less (seconds) is done several times per sample: reading a clock takes long enough to matter.
_SHORTEST_SAMPLE = 1e-4
_LEAST, _MOST = 3, 40


def sampled(action: Callable[[], object], budget_s: float, clock: Callable[[], float]) -> list[float]:
    """Seconds that `action` takes by `clock`: at least three samples, and as many more as `budget_s` allows."""
    return sampled_in_turn([action], budget_s, clock)[0]


def sampled_in_turn(
    actions: Sequence[Callable[[], object]], budget_s: float, clock: Callable[[], float]
) -> list[list[float]]:
    """Of each action, as sampled(). Each finds caches as the others left them."""
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
    """In a sample."""
    action()  # The first one finds memory and code that were not used for a while.
    start = clock()
    action()
    return max(1, int(_SHORTEST_SAMPLE / max(clock() - start, 1e-9)))


def cost_point(size: int, samples: Sequence[float], call_s: float = 0.0) -> CostPoint:
    """`call_s`: what the call itself takes, from Python, which the engine does not pay."""
    seconds = [max(0.0, sample - call_s) for sample in samples]
    return CostPoint(
        bytes=size,
        median_s=rounded(statistics.median(seconds)),
        smallest_s=rounded(min(seconds)),
        largest_s=rounded(max(seconds)),
    )


def rounded(value: float) -> float:
    """Four digits: more would be noise."""
    return float(f"{value:.4g}")
