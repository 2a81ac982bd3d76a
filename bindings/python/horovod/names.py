# SPDX-License-Identifier: Apache-2.0
"""Names of Horovod that are the same in every framework and that HiPress calls otherwise, or does not have."""

from __future__ import annotations

from typing import Any, NoReturn

from hipress import runtime
from hipress.errors import HipressError, Unsupported
from hipress.horovod import absent

HorovodInternalError = HipressError
"""What Horovod raises when an operation fails: here any error of HiPress."""


def init(comm: Any = None, process_sets: Any = None) -> None:
    """Meets the other ranks; see hipress.init(). Raises Unsupported for anything but all ranks of the launcher."""
    check_all_ranks(comm, process_sets)
    runtime.init()


def check_all_ranks(comm: Any, process_sets: Any) -> None:
    """Raises Unsupported for anything but all ranks of the launcher."""
    if comm is not None or process_sets:
        raise Unsupported(
            "init() with a communicator or process sets: HiPress takes all ranks that the launcher started"
        )


def join(device: int = -1) -> NoReturn:
    """Raises Unsupported."""
    raise absent.refusal("torch", "join")
