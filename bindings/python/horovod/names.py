# SPDX-License-Identifier: Apache-2.0
"""Names of Horovod, the same in every framework, that HiPress has under another name."""

from __future__ import annotations

from typing import Any

from hipress import runtime
from hipress.adapter.process_sets import add_at_start
from hipress.errors import HipressError, Unsupported

HorovodInternalError = HipressError
"""The error that Horovod raises when an operation fails: the base of HiPress' errors."""


def init(comm: Any = None, process_sets: Any = None) -> None:
    """Joins the job, see hipress.init(), and adds process sets, see add_process_set(). All ranks give the same sets;
    "dynamic" adds none: sets can always be added later.

    Raises Unsupported for a communicator.
    """
    check_all_ranks(comm)
    runtime.init()
    add_at_start(process_sets)


def check_all_ranks(comm: Any) -> None:
    """Raises Unsupported for another job than that of all ranks of the launcher."""
    if comm is not None:
        raise Unsupported("init() with a communicator: HiPress takes all ranks that the launcher started")
