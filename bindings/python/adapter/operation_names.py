# SPDX-License-Identifier: Apache-2.0
"""The names by which ranks match operations. Operations that were given none are matched by the order of the calls."""

from __future__ import annotations

import threading

from hipress import runtime
from hipress.errors import InvalidArgument

_CALLER = "thread of unnamed operations"


def operation_name(kind: str, name: str | None, *, foreign_threads: bool = True) -> str:
    """The name of an operation of this `kind`: the one that it was given, or else the next number of this process.

    One number for all kinds: ranks whose calls come in different orders get a Mismatch, and do not wait for each other.

    Arguments:
        foreign_threads: threads that Python did not start may call without a name, too. The thread that called first
            waits for them, as it does for the threads that run backward on a GPU.

    Raises InvalidArgument without a name in any other thread but the one that called first: several threads call in no
    order that all ranks share, and an operation of one rank could receive the values that are meant for another
    operation.
    """
    if name:
        return f"{kind}.{name}"
    process = runtime.current()
    thread = threading.current_thread()
    if isinstance(thread, threading._DummyThread):
        allowed = foreign_threads
    else:
        allowed = process.kept.setdefault(_CALLER, thread) is thread
    if not allowed:
        raise InvalidArgument(
            f"{kind} without a name in thread '{thread.name}': ranks match operations without names by the order of "
            "calls in one thread, the first that called; give the operation a name, the same on all ranks"
        )
    return process.numbered("unnamed")
