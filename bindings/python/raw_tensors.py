# SPDX-License-Identifier: Apache-2.0
"""Says once which part of the tensors travels without the codec that the program has chosen."""

from __future__ import annotations

from hipress.log import logger

_said = False


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
