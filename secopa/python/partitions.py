# SPDX-License-Identifier: Apache-2.0
"""Into how many partitions a tensor may sensibly be cut."""

from __future__ import annotations

from hipress.secopa.gradients import ELEMENT_BYTES

#: As core/casync/tensor.cc has them: a smaller share is not worth its messages; a larger partition is cut for overlap.
_WORTH_SHARING = 128 << 10
_PARTITION_BYTES = 4 << 20
_MOST = 4096


def by_size(elements: int, dtype: str, world: int) -> int:
    """What the runtime does if nobody says otherwise."""
    size = elements * ELEMENT_BYTES[dtype]
    if size < _WORTH_SHARING:
        return 1
    if size <= _PARTITION_BYTES * world:
        return min(world, -(-size // _WORTH_SHARING))
    pieces = -(-size // _PARTITION_BYTES)
    return min(_MOST // world * world, -(-pieces // world) * world)


def sensible(elements: int, dtype: str, world: int) -> list[int]:
    """By size, and what else is worth trying: one piece, a share per rank, more than one share per rank."""
    wanted = [by_size(elements, dtype, world), 1, world, 2 * world, 4 * world]
    # Below some thousands of elements a partition is all header and hand-over.
    most = max(1, min(_MOST, elements // 4096))
    return list(dict.fromkeys(count for count in wanted if count <= most))
