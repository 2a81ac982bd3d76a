# SPDX-License-Identifier: Apache-2.0
"""What travels without the codec that the program has chosen: said once, and counted. The engine counts by itself."""

from __future__ import annotations

import threading

from hipress.log import logger

_said = False
_lock = threading.Lock()
_sent_over_groups: int | None = None


def say_once(rank: int, raw: int, total: int) -> None:
    """One line of rank 0 in the life of the process, about its first list with a codec of which tensors travel raw."""
    global _said
    if _said or rank != 0 or raw == 0:
        return
    _said = True
    logger().info(
        f"{raw} of {total} tensors travel without the codec: they are smaller than min_compress_bytes, have one "
        "dimension or no network in the way, or the codec would not shrink them"
    )


def count_sent(sent: int) -> None:
    """An average over a process group has sent so many bytes. 0: there is such an average."""
    global _sent_over_groups
    with _lock:  # each average has a thread of its own
        _sent_over_groups = (_sent_over_groups or 0) + sent


def sent_over_groups() -> int | None:
    """The bytes of all averages over process groups since this process began; None: there was none."""
    return _sent_over_groups


def ring_bytes(world: int, tensor_bytes: int) -> int:
    """What each of `world` ranks sends of such tensors in a ring, and on average with topology "ps"."""
    return 2 * (world - 1) * tensor_bytes // world
