# SPDX-License-Identifier: Apache-2.0
"""Errors of the last averages of a process on a GPU. The host does not wait for the GPU, so an error may have
met no call that could raise it."""

from __future__ import annotations

import atexit
import logging
import weakref
from typing import Protocol

from hipress.errors import HipressError
from hipress.log import logger

#: An ending process, or an average that is deleted, waits this long for a GPU's work.
_SECONDS_AT_THE_END = 2.0


class Side(Protocol):
    """See GpuSide."""

    told: bool

    def synchronize(self, seconds: float) -> None: ...
    def failure(self) -> HipressError | None: ...


_used: weakref.WeakSet[Side] = weakref.WeakSet()


def tell_at_exit(side: Side) -> None:
    """When the process ends, writes the error of the side's work to the log if no call has raised it.

    The process keeps its exit code. A handler at exit could change the code only by ending the process before the
    other handlers have run.
    """
    if not _used:
        atexit.register(_tell_all)
    _used.add(side)


def tell(side: Side) -> None:
    """Nobody can ask for the error of the side's work any more: writes it to the log if no call has raised it."""
    if side.told:
        return
    try:
        side.synchronize(_SECONDS_AT_THE_END)
        error = side.failure()
    except HipressError as failed:
        error = failed
    if error is not None:
        side.told = True
        logger().log(logging.ERROR, "averaging gradients failed in the last step: %s", error)


def _tell_all() -> None:
    for side in list(_used):
        tell(side)
