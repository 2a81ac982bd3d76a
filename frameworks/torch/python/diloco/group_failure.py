# SPDX-License-Identifier: Apache-2.0
"""Errors of a process group's collectives as errors of HiPress."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hipress.errors import HipressError, TransportError


@contextmanager
def failing(rank: int, world: int, doing: str) -> Iterator[None]:
    """Within it an error of the group, also its timeout, becomes a TransportError that says what rank `rank` of `world`
    was doing."""
    try:
        yield
    except HipressError:
        raise
    except RuntimeError as error:  # of Gloo, also for a timeout
        raise TransportError(
            f"the process group failed on rank {rank} of {world} {doing}: {error}; see the output of the other ranks, "
            "and start again from the last checkpoint"
        ) from error
