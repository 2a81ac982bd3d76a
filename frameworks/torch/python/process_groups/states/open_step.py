# SPDX-License-Identifier: Apache-2.0
"""The averages of one step. What codecs remember of them changes together or not at all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any

import torch

from hipress.torch.installed.private_names import running_backward_pass
from hipress.torch.process_groups.side import Side


def backward_pass() -> Hashable:
    """A mark that the averages of one backward pass have in common. Without a backward pass each average is a step of
    its own."""
    running = running_backward_pass()
    return object() if running < 0 else ("backward", running)


class OpenStep:
    """Counts the averages of a step that have begun and not ended."""

    def __init__(self, key: Hashable) -> None:
        """`key`: the step's number, or another mark that its averages have in common."""
        self._key = key
        self._names: set[str] = set()
        self._running = 0
        self._ended = threading.Condition()
        #: Of work on a GPU that no stage of the average has put there.
        self.marks: list[Any] = []

    def takes(self, key: Hashable, names: Collection[str]) -> bool:
        """Whether an average of these tensors may belong to the step: a step averages each tensor once."""
        return key == self._key and self._names.isdisjoint(names)

    def begin(self, names: Collection[str]) -> None:
        """An average of these tensors begins."""
        with self._ended:
            self._names.update(names)
            self._running += 1

    def end(self, mark: Any = None) -> None:
        """One of the averages has ended, on a GPU once it has reached the mark."""
        with self._ended:
            self._running -= 1
            if mark is not None:
                self.marks.append(mark)
            self._ended.notify_all()

    def wait(self) -> None:
        """Until all of them have ended; each has the timeout of its group."""
        with self._ended:
            self._ended.wait_for(lambda: self._running == 0)


class StepByStep:
    """The steps of one average, of which the next changes states only when the one before is settled.

    The caller is in the step that has begun last; the stage that encodes is in the same step, or in the one before.
    """

    def __init__(
        self,
        side: Side,
        keeps_states: bool,
        settle_others: Sequence[Callable[[bool], None]],
        look: Callable[[Any], None],
    ) -> None:
        """`settle_others`: they settle the states that `changes` does not know; they get whether the host knows that
        the step is discarded. `look`: called with `changes` before they are."""
        self._side = side
        self._settle_others, self._look = settle_others, look
        self._lock = threading.Lock()
        self.keeps_states = keeps_states
        #: What the averages of the current step change.
        self.changes = side.changes(keeps_states)
        self._before: OpenStep | None = None
        self._begun: OpenStep | None = None
        self._encoding: OpenStep | None = None

    def begin(self, names: Collection[str], key: Hashable) -> OpenStep:
        """The step of an average that begins now."""
        if self._begun is None or not self._begun.takes(key, names):
            self._before, self._begun = self._begun, OpenStep(key)
        self._begun.begin(names)
        return self._begun

    def another(self, key: Hashable) -> Callable[[torch.Tensor | None], None] | None:
        """Somebody else averages a tensor of the step `key`, and calls the returned function with the average, or with
        None if it has failed. None: no codec keeps states, so nobody needs to know it."""
        if not self.keeps_states:
            return None
        step = self.begin((), key)
        self.enter_now(step)

        def ended(average: torch.Tensor | None) -> None:
            with self._side.at_once():
                if average is None:
                    self.changes.discard()
                else:
                    self._side.look(average, self.changes)
                step.end(self._side.settled())

        return ended

    def enter(self, step: OpenStep) -> None:
        """Encoding begins or goes on in this step."""
        with self._lock:
            before, self._encoding = self._encoding, step
            if before is not None and before is not step and self.keeps_states:
                self._settle(before)

    def enter_now(self, step: OpenStep) -> None:
        """The caller of begin() enters the step itself, as soon as the step before has ended."""
        if self._before is not None:
            self._before.wait()  # no stage then waits for the lock to enter that one
        with self._side.at_once():
            self.enter(step)

    def keep_states(self) -> None:
        """There are states from now on. Between two steps only, after close()."""
        if not self.keeps_states:
            self.keeps_states = True
            self.changes = self._side.changes(True)

    def discard(self) -> None:
        """The last step does not count, unless it is settled."""
        if self._begun is not None:
            self.changes.discard()

    def close(self) -> None:
        """Settles the last step. Between two steps only."""
        step, self._before, self._begun, self._encoding = self._begun, None, None, None
        if step is not None:
            with self._side.at_once():
                self._settle(step)

    def _settle(self, step: OpenStep) -> None:
        step.wait()
        self._side.after_all()
        for mark in step.marks:
            self._side.wait_for(mark)
        self._look(self.changes)
        discarded = self._side.settle(self.changes)
        for settle in self._settle_others:
            settle(discarded)
