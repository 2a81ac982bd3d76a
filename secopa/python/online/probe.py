# SPDX-License-Identifier: Apache-2.0
"""What a byte of a sum over all ranks takes, by a short try: enough to know a network that is hopeless, or another."""

from __future__ import annotations

from collections.abc import Callable

#: Elements of float32: the latency is in both times, so it is not in their difference.
_SMALL, _LARGE, _HUGE = 1 << 14, 1 << 18, 1 << 21
#: A sum that takes at most this time is tried again, or with more elements (seconds).
_SHORT, _SHORTER = 0.05, 0.005
_TRIES = 3


def seconds_per_byte(add: Callable[[int], float], agreed: Callable[[float], float]) -> float:
    """The same on all ranks, which call it together. It takes half a second at most on 100 Mbit/s.

    Arguments:
        add: adds so many values of float32 over all ranks, and returns the seconds that it took.
        agreed: the median of all ranks' seconds.
    """
    add(_SMALL)  # connections open

    def shortest(elements: int) -> float:
        found = agreed(add(elements))
        for _ in range(_TRIES - 1 if found < _SHORT else 0):
            found = min(found, agreed(add(elements)))
        return found

    small_s, large, large_s = shortest(_SMALL), _LARGE, shortest(_LARGE)
    if large_s < _SHORTER:
        large, large_s = _HUGE, shortest(_HUGE)
    return max(large_s - small_s, 0.0) / (4 * (large - _SMALL))
