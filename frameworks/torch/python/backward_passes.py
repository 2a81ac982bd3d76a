# SPDX-License-Identifier: Apache-2.0
"""What torch's hooks of parameters do not tell of backward passes: the end, a pass within a pass (checkpointing with
use_reentrant=True), and an exception. For the last two torch.autograd.backward() is wrapped.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any, Protocol

import torch

from hipress.torch.installed.private_names import at_end_of_backward, running_backward_pass


class BackwardPass:
    """The outermost backward pass that runs now. At its end torch calls this object, which calls `end` with itself.

    torch keeps the object as long as the pass runs; `end` belongs to an object that it does not keep alive.
    """

    def __init__(self, end: Callable[[BackwardPass], None]) -> None:
        self._end = weakref.WeakMethod(end)
        #: torch's number of the pass; a pass within it has another one.
        self.number = running_backward_pass()
        self.has_gradients = False
        self.has_nested = False
        self.ended = False
        at_end_of_backward(self)

    def __call__(self) -> None:
        end = self._end()
        try:
            if end is not None:
                end(self)
        finally:
            self.ended = True


class Listener(Protocol):
    """An object that hears of the backward passes of this process."""

    def nested_pass(self) -> None:
        """Another backward pass begins within the current one."""

    def backward_raised(self, error: BaseException) -> None:
        """A backward pass of this process, with all passes within it, has ended with `error`."""


_listeners: weakref.WeakSet[Listener] = weakref.WeakSet()


def listen(listener: Listener) -> None:
    """Tells `listener` of every backward pass, as long as it lives."""
    _listeners.add(listener)
    own = torch.autograd.backward
    if getattr(own, "tells_hipress", False):
        return

    @functools.wraps(own)
    def backward(*args: Any, **kwargs: Any) -> Any:
        is_nested = running_backward_pass() != -1
        if is_nested:
            for each in list(_listeners):
                each.nested_pass()
        try:
            return own(*args, **kwargs)
        except BaseException as error:
            if not is_nested:
                for each in list(_listeners):
                    each.backward_raised(error)
            raise

    backward.tells_hipress = True  # type: ignore[attr-defined]
    torch.autograd.backward = backward  # Tensor.backward() calls it by this name
