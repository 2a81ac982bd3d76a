# SPDX-License-Identifier: Apache-2.0
"""Into how many partitions a tensor may sensibly be cut."""

from __future__ import annotations

from hipress._library import load_core
from hipress.secopa.gradients import ELEMENT_BYTES

#: As the engine takes at most.
_MOST = 4096


def by_size(elements: int, dtype: str, world: int) -> int:
    """What the runtime does if nobody says otherwise."""
    partitions: int = load_core().default_partitions(elements, ELEMENT_BYTES[dtype], world)
    return partitions


def sensible(elements: int, dtype: str, world: int) -> list[int]:
    """By size, and what else is worth trying: one piece, a share per rank, more than one share per rank."""
    wanted = [by_size(elements, dtype, world), 1, world, 2 * world, 4 * world]
    # Below some thousands of elements a partition is all header and hand-over.
    most = max(1, min(_MOST, elements // 4096))
    return list(dict.fromkeys(count for count in wanted if count <= most))
