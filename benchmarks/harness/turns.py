# SPDX-License-Identifier: Apache-2.0
"""Measuring turns: each turn measures every system once. This module has the number of turns and the systems' order."""

from __future__ import annotations

from collections.abc import Iterator

#: Number of warm-ups after the first synchronisation; only one if a synchronisation takes longer than LONG_WARM_UP
#: (seconds). The first synchronisations allocate memory, twice for codecs, which takes seconds on a machine with
#: untouched memory.
WARM_UPS = 3
LONG_WARM_UP = 2.0
#: Duration of all timed turns if their number is not given (seconds).
_BUDGET = 10.0
_MIN_REPEATS = 7
_MAX_REPEATS = 1000
#: Longer turns (seconds) are repeated less often, because small disturbances affect them less.
_LONG_TURN = 5.0
_MIN_LONG_REPEATS = 5


def repeats_of(seconds: float) -> int:
    """The number of timed turns if one takes `seconds`."""
    least = _MIN_REPEATS if seconds < _LONG_TURN else _MIN_LONG_REPEATS
    return min(_MAX_REPEATS, max(least, int(_BUDGET / seconds)))


def order(number: int, count: int) -> Iterator[int]:
    """The order of `count` systems in turn `number`: alternately forwards and backwards, starting one system further.

    So disturbances of the machine, and the cache contents that a system leaves, affect all systems equally.
    """
    for position in range(count):
        yield (number + (position if number % 2 == 0 else -position)) % count
