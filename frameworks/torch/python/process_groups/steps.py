# SPDX-License-Identifier: Apache-2.0
"""Which call of which step a collective is: what codecs remember belongs to the same call of the next step."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from hipress.errors import Unsupported

_all: weakref.WeakSet[Steps] = weakref.WeakSet()


class Steps:
    """Counts calls. A step ends when an optimizer has stepped after a call."""

    def __init__(self, keeps_states: bool) -> None:
        """`keeps_states`: the codec remembers values, so that it matters which call is which."""
        self.done = 0
        self._calls = 0
        self._keeps_states = keeps_states
        self._optimizer: weakref.ref[torch.optim.Optimizer] | None = None
        self._error: Unsupported | None = None
        _follow_optimizers()
        _all.add(self)

    def call(self) -> tuple[int, int]:
        """The place of this call in its step, and the number of steps before. Raises Unsupported."""
        if self._error is not None:
            raise self._error
        self._calls += 1
        return self._calls - 1, self.done

    def end(self, optimizer: torch.optim.Optimizer | None = None) -> None:
        """Ends the step, if it had a call; `optimizer` has ended it."""
        if self._calls == 0:
            return
        if optimizer is not None and self._keeps_states:
            before = None if self._optimizer is None else self._optimizer()
            if before is not None and before is not optimizer:
                self._error = Unsupported(
                    "two optimizers step in turn after all-reduces of one process group 'hipress', so its codec would "
                    "mix their states: give each optimizer's parameters a group of their own, or choose a codec "
                    "without error feedback"
                )
            self._optimizer = weakref.ref(optimizer)
        self._calls = 0
        self.done += 1


_following = False


def _follow_optimizers() -> None:
    global _following
    if not _following:
        register_optimizer_step_post_hook(_stepped)
        _following = True


def _stepped(optimizer: torch.optim.Optimizer, *_: Any) -> None:
    for steps in list(_all):
        steps.end(optimizer)
