# SPDX-License-Identifier: Apache-2.0
"""A thread that does one step of the work on batch after batch, in the order in which they came.

All ranks hand over the same batches in the same order, so each stage that uses a process group of its own starts the
group's collectives in the same order on all ranks.
"""

from __future__ import annotations

import atexit
import functools
import queue
import threading
import time
import weakref
from collections.abc import Callable
from typing import Generic, TypeVar

Batch = TypeVar("Batch")

#: An ending process waits this long for the threads. A thread may wait for a lost rank until the group's timeout.
_SECONDS_AT_EXIT = 2.0
#: And this long for the threads of Gloo, which need a moment of a core.
_SECONDS_FOR_GLOO = 0.05
#: What ends each thread.
_running: weakref.WeakKeyDictionary[threading.Thread, Callable[[], None]] = weakref.WeakKeyDictionary()


class Stage(Generic[Batch]):
    """Runs `work(batch)` in a thread. `work` must not raise.

    `last`: the thread's last batch, when this object is closed or forgotten, or when the process ends.
    """

    def __init__(self, name: str, work: Callable[[Batch], None], last: Batch | None = None) -> None:
        self._batches: queue.SimpleQueue[Batch | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=_run, args=(self._batches, work), name=name, daemon=True)
        self._thread.start()
        # The thread holds the queue only, so that a forgotten stage ends.
        end = functools.partial(_end, self._batches, last)
        _running[self._thread] = end
        atexit.unregister(_end_all)  # it runs once, and only in processes that had stages
        atexit.register(_end_all)
        self._end = weakref.finalize(self, end)

    def put(self, batch: Batch) -> None:
        """Hands a batch over; returns at once."""
        self._batches.put(batch)

    def close(self) -> None:
        """Ends the thread, when it has done the batches that it has, and waits for that."""
        self._end()
        self._thread.join()


def _run(batches: queue.SimpleQueue[Batch | None], work: Callable[[Batch], None]) -> None:
    while (batch := batches.get()) is not None:
        work(batch)
        batch = None  # while the thread waits, its tensors are free


def _end(batches: queue.SimpleQueue[Batch | None], last: Batch | None) -> None:
    if last is not None:
        batches.put(last)
    batches.put(None)


# A daemon thread that deletes a torch Work while the interpreter ends would abort the process: its destructor takes
# Python's lock, and Python ends such a thread there.
def _end_all() -> None:
    end = time.monotonic() + _SECONDS_AT_EXIT
    running = list(_running.items())
    for _, end_thread in running:
        end_thread()
    for thread, _ in running:
        thread.join(max(0.0, end - time.monotonic()))
    # A thread of Gloo wakes the thread that waits for a Work, and drops its own reference later. The last reference
    # needs Python's lock, also in that thread (torch 2.13, with and without HiPress). Nothing tells when it is dropped.
    time.sleep(_SECONDS_FOR_GLOO)
