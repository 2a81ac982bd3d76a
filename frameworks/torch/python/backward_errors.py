# SPDX-License-Identifier: Apache-2.0
"""Exceptions that end a backward pass: torch calls no hook for them, so torch.autograd.backward() is wrapped."""

from __future__ import annotations

import functools
import weakref
from typing import Any, Protocol

import torch


class Listener(Protocol):
    """An object whose backward_raised() is called for every backward pass that raises."""

    def backward_raised(self, error: BaseException) -> None:
        """A backward pass of this process has ended with `error`."""


_listeners: weakref.WeakSet[Listener] = weakref.WeakSet()


def listen(listener: Listener) -> None:
    """Calls `listener.backward_raised()` for every backward pass that raises, as long as `listener` lives."""
    _listeners.add(listener)
    own = torch.autograd.backward
    if getattr(own, "tells_hipress", False):
        return

    @functools.wraps(own)
    def backward(*args: Any, **kwargs: Any) -> Any:
        try:
            return own(*args, **kwargs)
        except BaseException as error:
            for each in list(_listeners):
                each.backward_raised(error)
            raise

    backward.tells_hipress = True  # type: ignore[attr-defined]
    torch.autograd.backward = backward  # Tensor.backward() calls it by this name
