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

#: An ending process waits this long for a GPU's work.
_SECONDS_AT_EXIT = 2.0


class Side(Protocol):
    """See GpuSide."""

    told: bool

    def synchronize(self, seconds: float) -> None: ...
    def failure(self) -> HipressError | None: ...


_used: weakref.WeakSet[Side] = weakref.WeakSet()


def tell_at_exit(side: Side) -> None:
    """When the process ends, writes the error of the side's work to the log if no call has raised it."""
    if not _used:
        atexit.register(_tell)
    _used.add(side)


def _tell() -> None:
    for side in list(_used):
        if side.told:
            continue
        try:
            side.synchronize(_SECONDS_AT_EXIT)
            error = side.failure()
        except HipressError as failed:
            error = failed
        if error is not None:
            logger().log(logging.ERROR, "averaging gradients failed in the last step: %s", error)
