# SPDX-License-Identifier: Apache-2.0
"""How much longer computing takes while a machine's other cores compute, too: they share memory, or more."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable

from hipress.secopa.measure.samples import rounded

#: Each number of busy cores, so often, in turn: what else the machine does then hits all alike.
_ROUNDS = 5
#: Of one sample (seconds).
_SAMPLE_S = 0.004
#: With more busy cores it is taken to be as with so many.
MOST_CORES = 8


def crowding(actions: list[Callable[[], object]]) -> tuple[float, ...]:
    """How many times as long the first action takes, in processor time, while 0, 1, 2 … of the others run.

    They do the same on memory of their own, and leave the interpreter's lock while they do it.
    """
    seconds: list[list[float]] = [[] for _ in actions]
    for _ in range(_ROUNDS):
        for busy in range(len(actions)):
            seconds[busy].append(_beside(actions[0], actions[1 : 1 + busy]))
    medians = [statistics.median(samples) for samples in seconds]
    factors = [1.0]
    for median in medians[1:]:
        # More neighbours make nothing faster: what looks like it is noise.
        factors.append(max(factors[-1], rounded(median / medians[0])))
    return tuple(factors)


def _beside(action: Callable[[], object], others: list[Callable[[], object]]) -> float:
    over = threading.Event()

    def repeat(other: Callable[[], object]) -> None:
        while not over.is_set():
            other()

    threads = [threading.Thread(target=repeat, args=(other,)) for other in others]
    for thread in threads:
        thread.start()
    try:
        action()
        samples: list[float] = []
        end = time.perf_counter() + _SAMPLE_S
        while not samples or time.perf_counter() < end:
            start = time.thread_time()
            action()
            samples.append(time.thread_time() - start)
    finally:
        over.set()
        for thread in threads:
            thread.join()
    return statistics.median(samples)
