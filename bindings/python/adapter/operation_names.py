# SPDX-License-Identifier: Apache-2.0
"""The names by which ranks match operations. Ranks match operations without a name by the order of the calls."""

from __future__ import annotations

import threading

from hipress import runtime
from hipress.adapter.process_sets import ProcessSet, global_process_set
from hipress.errors import InvalidArgument

_CALLER = "thread of unnamed operations"


def operation_name(
    kind: str, name: str | None, process_set: ProcessSet = global_process_set, *, foreign_threads: bool = True
) -> str:
    """The name of an operation of this `kind`: the given name, or else the next number of this process in the set.

    All kinds share one sequence of numbers: ranks with calls in different orders get a Mismatch and do not wait for
    each other.

    Arguments:
        foreign_threads: whether threads that Python did not start may call without a name, too. The thread that called
            first waits for them, for example for the threads that run backward on a GPU.

    Raises InvalidArgument if another thread than the one that called first calls without a name. The order of calls of
    several threads may differ between ranks, and an operation could receive the values of another operation.
    """
    if name:
        return process_set.named(f"{kind}.{name}")
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
    return process_set.named(process_set.numbered("unnamed"))
