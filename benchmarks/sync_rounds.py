# SPDX-License-Identifier: Apache-2.0
"""How often systems are measured, and in which order they take turns."""

from __future__ import annotations

from collections.abc import Iterator

#: What warms up after a first synchronisation, or round of them: so many, or, where it takes longer (seconds), one. The
#: first ones allocate memory, codecs' twice; on a machine that has not touched its memory before that takes seconds.
WARM_UPS = 3
LONG_WARM_UP = 2.0
#: Of the timed rounds, where their number is not given (seconds).
_BUDGET = 10.0
_MIN_REPEATS = 7
_MAX_REPEATS = 1000
#: A round that takes longer (seconds) is repeated less often: what small disturbances do to it is small.
_LONG_ROUND = 5.0
_MIN_LONG_REPEATS = 5


def repeats_of(seconds: float) -> int:
    """How many timed rounds there are if one takes so long."""
    least = _MIN_REPEATS if seconds < _LONG_ROUND else _MIN_LONG_REPEATS
    return min(_MAX_REPEATS, max(least, int(_BUDGET / seconds)))


def order(number: int, count: int) -> Iterator[int]:
    """Of `count` systems in that round: forwards and backwards in turn, beginning one further each time. What disturbs
    the machine, and what a system leaves in its caches, then hits all alike."""
    for position in range(count):
        yield (number + (position if number % 2 == 0 else -position)) % count
