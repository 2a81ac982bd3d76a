# SPDX-License-Identifier: Apache-2.0
"""Objects that go on with the next engine of this process, when the ranks of an elastic job have changed."""

from __future__ import annotations

import itertools
import weakref
from typing import Protocol


class Restartable(Protocol):
    """An object that has agreed on tensors with the other ranks."""

    def restart(self) -> None:
        """Agrees with the ranks of the current engine, and forgets what was in flight. Codecs keep nothing then."""


_numbers = itertools.count()
_objects: weakref.WeakKeyDictionary[Restartable, int] = weakref.WeakKeyDictionary()


def note(made: Restartable) -> None:
    """`made` has agreed with the other ranks, after all objects that were noted before."""
    _objects[made] = next(_numbers)


def restart_lists() -> None:
    """Restarts all objects in the order in which they were made: a new rank makes its own in the same order."""
    for _, each in sorted(((number, each) for each, number in list(_objects.items())), key=lambda pair: pair[0]):
        each.restart()
