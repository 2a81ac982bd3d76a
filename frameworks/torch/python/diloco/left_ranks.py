# SPDX-License-Identifier: Apache-2.0
"""Ranks that take part in no more exchanges say so through the process group's store.

A process group tells nothing of a rank whose script has ended: the others would wait until its timeout, or get an error
that names no rank.
"""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore, Store

from hipress.errors import PeerLost
from hipress.torch.installed.private_names import HashStore, store_of
from hipress.torch.process_groups.stage import Stage
from hipress.unfinished import Step, described

Result = TypeVar("Result")

#: Between two looks at the store, while this rank waits.
_PAUSE = 0.25
#: After a failure, which may arrive here before the reason is in the store.
_PATIENCE = 2.0
#: How many of these objects a group has had. All of its ranks make them in one order.
_made: weakref.WeakKeyDictionary[dist.ProcessGroup, int] = weakref.WeakKeyDictionary()


@dataclass
class _Record:
    """What the thread tells of this rank. The thread holds this and not LeftRanks, whose end must end the thread."""

    store: Store
    rank: int
    world: int
    waits: int = 0
    """That have ended with a result."""
    step: Step | None = None
    told: bool = False


@dataclass(frozen=True)
class _Look:
    """At the store, while this rank waits."""

    number: int
    """Of this wait, from 1 on."""
    over: threading.Event = field(default_factory=threading.Event)
    found: Future[str | None] = field(default_factory=Future)


class LeftRanks:
    """Tells the others when this rank leaves, and waits for them only while they take part.

    All ranks wait for the same collectives in the same order, so a rank that has left after fewer waits than another
    one never takes part in the next. A thread asks the store, which may not answer.
    """

    def __init__(self, group: dist.ProcessGroup) -> None:
        _made[group] = _made.get(group, 0) + 1
        # MPI's groups have no store: their ranks tell nothing.
        shared = store_of(group) or HashStore()
        store = PrefixStore(f"hipress/diloco/{_made[group]}/", shared)
        self._record = _Record(store, group.rank(), group.size())
        at_end = functools.partial(_leave, self._record, None)
        self._stage: Stage[Callable[[], None]] = Stage("hipress-left-ranks", lambda task: task(), last=at_end)

    def leaves_with(self, step: Step) -> None:
        """The other ranks' errors name its number of steps."""
        self._record.step = step

    def leave(self, why: str) -> None:
        """Tells the others that this rank takes part no more. Without this call they are told when this object is
        forgotten or the process ends."""
        self._stage.put(functools.partial(_leave, self._record, why))

    def all_left(self) -> None:
        """No rank waits for another one any more: there is nothing to tell."""
        self._record.told = True

    def wait(self, collective: Future[Result]) -> Result:
        """Waits for the result, at most as long as the group does.

        Raises the collective's error; PeerLost if a rank that it needs has left.
        """
        look = _Look(self._record.waits + 1)
        try:
            wait([collective], timeout=_PAUSE)
            if not _succeeded(collective):
                self._stage.put(functools.partial(_follow, self._record, look))
                _first_of(collective, look.found)
            if not _succeeded(collective):
                wait([look.found], timeout=_PATIENCE)
                if look.found.done() and (left := look.found.result()) is not None:
                    raise PeerLost(left) from (collective.exception() if collective.done() else None)
            result = collective.result()
        finally:
            look.over.set()
        self._record.waits += 1
        return result


def _succeeded(collective: Future[Result]) -> bool:
    return collective.done() and collective.exception() is None


def _first_of(*futures: Future[Any]) -> None:
    wait(futures, return_when=FIRST_COMPLETED)


def _follow(record: _Record, look: _Look) -> None:
    left: str | None = None
    try:
        while (left := _left(record, look.number)) is None:
            if look.over.wait(_PAUSE):
                return
    except RuntimeError:  # of the store, whose host may have gone
        pass
    look.found.set_result(left)


def _left(record: _Record, number: int) -> str | None:
    """The first rank that has left before its wait of this number."""
    told = 1
    while record.store.check([str(told)]):
        rank, waits, why = record.store.get(str(told)).decode().split(" ", 2)
        if int(waits) < number:
            return f"rank {rank} of {record.world} has left the job ({why})"
        told += 1
    return None


def _leave(record: _Record, why: str | None) -> None:
    if record.told:
        return
    record.told = True
    steps = 0 if record.step is None else record.step.steps_taken()
    try:
        place = record.store.add("told", 1)
        record.store.set(str(place), f"{record.rank} {record.waits} {why or _end()} after {steps} steps")
        record.store.check([str(place)])  # its answer says that the store has the text: the process may end
    except RuntimeError:  # of the store, whose host may have gone: the others see the connections close
        pass


def _end() -> str:
    error: BaseException | None = getattr(sys, "last_value", None)
    # In an interactive session it is of an earlier line.
    if error is not None and not threading.main_thread().is_alive():
        return f"it ended with {described(error)}"
    return "it ended without detach()"
