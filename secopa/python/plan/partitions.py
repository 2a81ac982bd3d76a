# SPDX-License-Identifier: Apache-2.0
"""The numbers of partitions that are worth trying for a tensor."""

from __future__ import annotations

from hipress._library import load_core
from hipress.secopa.profile.gradients import ELEMENT_BYTES

#: The engine's limit (kMaxPartitions).
MOST_PARTITIONS = 4096


def by_size(elements: int, dtype: str, world: int) -> int:
    """The number that the runtime chooses by default."""
    partitions: int = load_core().default_partitions(elements, ELEMENT_BYTES[dtype], world)
    return partitions


def sensible(elements: int, dtype: str, world: int) -> list[int]:
    """The default number, one partition, and one, two and four partitions per rank."""
    wanted = [by_size(elements, dtype, world), 1, world, 2 * world, 4 * world]
    # In a partition of a few thousand elements headers and submission cost more than the values.
    most = max(1, min(MOST_PARTITIONS, elements // 4096))
    return list(dict.fromkeys(count for count in wanted if count <= most))
