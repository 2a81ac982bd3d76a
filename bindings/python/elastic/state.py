# SPDX-License-Identifier: Apache-2.0
"""The state of a training: a commit keeps it, all ranks restore it after a loss, and new ranks get it."""

from __future__ import annotations

import json
import queue
from collections.abc import Callable, Iterable
from typing import Any

from hipress import runtime
from hipress.adapter.objects import broadcast_object
from hipress.elastic import lost_ranks
from hipress.elastic.interrupts import HostsUpdatedInterrupt, HostUpdateResult
from hipress.errors import Mismatch
from hipress.launch.worlds.seat import seat


class State:
    """What a training function goes on with, as Horovod's class of this name.

    A derived class has save(), restore() and sync(). save() copies the state on this rank; restore() goes back to the
    copy; sync() gives all ranks the state of rank 0.

    Arguments:
        bcast_object, get_rank: as in Horovod: a function that gives rank 0's object to all ranks, and one that returns
            this rank. Both are HiPress' own by default.
    """

    def __init__(
        self, bcast_object: Callable[[Any], Any] = broadcast_object, get_rank: Callable[[], int] = runtime.rank
    ) -> None:
        self._bcast_object = bcast_object
        self._rank = get_rank
        self._host_messages: queue.SimpleQueue[tuple[float, int]] = queue.SimpleQueue()
        self._last_updated_timestamp: float = 0
        self._reset_callbacks: list[Callable[[], None]] = []

    def register_reset_callbacks(self, callbacks: Iterable[Callable[[], None]]) -> None:
        """Adds functions to call after the ranks have changed, for example to adapt the learning rate."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """The ranks have changed."""
        self._host_messages = queue.SimpleQueue()
        self._last_updated_timestamp = 0
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def on_hosts_updated(self, timestamp: float, update_res: int = HostUpdateResult.added) -> None:
        """Processes wait to come in, or one is to leave. The next commit() of all ranks makes room."""
        self._host_messages.put((timestamp, update_res))

    def commit(self) -> None:
        """Keeps the state as it is now: after a loss all ranks go on from here. Then it calls check_host_updates().

        All ranks call it after the same steps. It copies the state, so a commit in each step may be too often.
        Raises HostsUpdatedInterrupt; Mismatch if the ranks have made different numbers of commits or steps.
        """
        self.save()
        own = seat()
        if own is not None:
            own.commits += 1
        self.check_host_updates()

    def check_host_updates(self) -> None:
        """Raises HostsUpdatedInterrupt, on all ranks, if the ranks are to change. All ranks call it."""
        latest, kinds = self._last_updated_timestamp, HostUpdateResult.no_update
        own = seat()
        if own is not None and own.news:
            self.on_hosts_updated(own.news)
        while not self._host_messages.empty():
            timestamp, kind = self._host_messages.get()
            if timestamp > latest:
                latest, kinds = timestamp, kinds | kind
        # A rank sends only news that it has not told yet: a new rank does not know the earlier news.
        is_new = latest > self._last_updated_timestamp
        latest, kinds = self._agree(latest if is_new else 0.0, kinds)
        self._last_updated_timestamp = max(latest, self._last_updated_timestamp)
        if latest:
            raise HostsUpdatedInterrupt(kinds == HostUpdateResult.removed)

    def save(self) -> None:
        """Copies the state."""
        raise NotImplementedError

    def restore(self) -> None:
        """Goes back to the last copy."""
        raise NotImplementedError

    def sync(self) -> None:
        """Gives all ranks the state of rank 0."""
        raise NotImplementedError

    def reset(self) -> None:
        """The ranks have changed: a derived class adapts what depends on them. Called before the callbacks."""

    def before_reset(self) -> None:
        """The ranks change now, and the state has not been restored: a derived class copies what its engine keeps."""

    def position(self) -> list[int]:
        """Numbers that all ranks have alike when they commit, such as steps."""
        return []

    def residual(self) -> float:
        """The squared norm of the residuals of this rank's codecs, at the last save()."""
        return 0.0

    def _agree(self, latest: float, kinds: int) -> tuple[float, int]:
        """The latest news of any rank, and its kinds. Raises Mismatch if the ranks' commits differ."""
        if not runtime.is_initialized():
            agreed: tuple[float, int] = self._bcast_object((latest, kinds))
            return agreed
        own, process = seat(), runtime.current()
        mine = {
            "latest": latest,
            "kinds": kinds,
            "at": [own.commits if own is not None else 0, *self.position()],
            "process": own.number if own is not None else process.place.rank,
            "residual": self.residual(),
        }
        gathered = [json.loads(each) for each in process.engine.allgather("commit", json.dumps(mine).encode())]
        for rank, theirs in enumerate(gathered):
            if theirs["at"] != gathered[0]["at"]:
                raise Mismatch(
                    f"the ranks commit at different places: rank 0 has made {_place(gathered[0]['at'])}, rank {rank} "
                    f"{_place(theirs['at'])}; all ranks call commit() after the same steps"
                )
        lost_ranks.note(gathered)
        return max(each["latest"] for each in gathered), _all_kinds(each["kinds"] for each in gathered)


def _place(at: list[int]) -> str:
    commits, *steps = at
    return f"{commits} commits" + (f" and {', '.join(map(str, steps))} steps" if steps else "")


def _all_kinds(each: Iterable[int]) -> int:
    kinds = HostUpdateResult.no_update
    for one in each:
        kinds |= one
    return kinds


class ObjectState(State):
    """Plain values, each an attribute: `ObjectState(epoch=0)` has `state.epoch`. As Horovod's class of this name."""

    def __init__(
        self,
        bcast_object: Callable[[Any], Any] = broadcast_object,
        get_rank: Callable[[], int] = runtime.rank,
        **kwargs: Any,
    ) -> None:
        self._saved_state = kwargs
        self._set_attrs()
        super().__init__(bcast_object, get_rank)

    def save(self) -> None:
        self._saved_state = {name: getattr(self, name) for name in self._saved_state}

    def restore(self) -> None:
        self._set_attrs()

    def sync(self) -> None:
        if self._saved_state:
            self._saved_state = self._bcast_object(self._saved_state)
            self._set_attrs()

    def _set_attrs(self) -> None:
        for name, value in self._saved_state.items():
            setattr(self, name, value)
