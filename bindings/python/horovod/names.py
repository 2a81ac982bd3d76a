# SPDX-License-Identifier: Apache-2.0
"""Names of Horovod, the same in every framework, that HiPress does not have or has under another name."""

from __future__ import annotations

from typing import Any, NoReturn

from hipress import runtime
from hipress.errors import HipressError, Unsupported
from hipress.horovod import absent

HorovodInternalError = HipressError
"""The error that Horovod raises when an operation fails: the base of HiPress' errors."""


def init(comm: Any = None, process_sets: Any = None) -> None:
    """Joins the job; see hipress.init(). Raises Unsupported for another set than all ranks of the launcher."""
    check_all_ranks(comm, process_sets)
    runtime.init()


def check_all_ranks(comm: Any, process_sets: Any) -> None:
    """Raises Unsupported for another set than all ranks of the launcher."""
    if comm is not None or process_sets:
        raise Unsupported(
            "init() with a communicator or process sets: HiPress takes all ranks that the launcher started"
        )


def join(device: int = -1) -> NoReturn:
    """Raises Unsupported."""
    raise absent.refusal("torch", "join")
