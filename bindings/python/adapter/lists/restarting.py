# SPDX-License-Identifier: Apache-2.0
"""Objects that go on with the next engine of this process, when the ranks of an elastic job have changed.

A new rank makes its objects when the others wait in their training function. So in an elastic job no object agrees with
other ranks when it is made: all of them do it in restart_lists(), when all ranks of a world have met.
"""

from __future__ import annotations

import itertools
import weakref
from typing import Protocol

from hipress.launch.worlds.seat import seat


class Restartable(Protocol):
    """An object that agrees on tensors with the other ranks, in each world."""

    def restart(self) -> None:
        """Agrees with the ranks of the current engine. Forgets operations in flight and codecs' states."""


_numbers = itertools.count()
_objects: weakref.WeakKeyDictionary[Restartable, int] = weakref.WeakKeyDictionary()


def note(made: Restartable) -> None:
    """restart_lists() restarts `made`, after all objects that were noted before."""
    _objects[made] = next(_numbers)


def waits_for_world() -> bool:
    """Whether an object that is made now waits for restart_lists()."""
    own = seat()
    return own is not None and not own.has_met


def restart_lists() -> None:
    """Restarts all objects in the order in which they were made: a new rank makes its own in the same order."""
    for _, each in sorted(((number, each) for each, number in list(_objects.items())), key=lambda pair: pair[0]):
        each.restart()
