# SPDX-License-Identifier: Apache-2.0
"""Crowding: the factor by which computing takes longer while other cores of the machine compute, too.

Cores share the memory, and hyper-threads share a core.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable

from hipress.secopa.online.measure.samples import rounded

#: Number of turns. Each turn samples every number of busy cores, so that other work affects all of them equally.
_TURNS = 5
#: Duration of one sample (seconds).
_SAMPLE_S = 0.004
#: The largest measured number of busy cores; more cores count as this number.
MOST_CORES = 8


def crowding(actions: list[Callable[[], object]]) -> tuple[float, ...]:
    """The factors by which the first action takes more processor time while 0, 1, 2 and more of the others run.

    The actions do the same work, each on separate memory, and release the interpreter's lock.
    """
    seconds: list[list[float]] = [[] for _ in actions]
    for _ in range(_TURNS):
        for busy in range(len(actions)):
            seconds[busy].append(_beside(actions[0], actions[1 : 1 + busy]))
    medians = [statistics.median(samples) for samples in seconds]
    factors = [1.0]
    for median in medians[1:]:
        # More busy cores cannot make the action faster, so a smaller median is noise.
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
