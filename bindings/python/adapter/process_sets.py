# SPDX-License-Identifier: Apache-2.0
"""Process sets, with Horovod's names and meaning: the ranks that take part in an operation, or in an optimizer.

    even = hvd.add_process_set([0, 2])                           # on all ranks
    if even.included():
        average = hvd.allreduce(tensor, process_set=even)        # on ranks 0 and 2

The ranks of a set agree among themselves: ranks that are not in it neither wait for its operations nor see their
errors. A lost rank still ends the job on all ranks.
"""

from __future__ import annotations

import hashlib
import json
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from hipress import runtime
from hipress._library import load_core
from hipress.errors import InvalidArgument, Unsupported
from hipress.lifetime import Runtime

#: Keys in Runtime.kept: of the sets that have been added, by their numbers; of the set of this rank alone.
_ADDED, _ALONE = "process sets", "process set of this rank"
#: A name of a tensor has the ranks of its set as text; a longer text is cut.
_MOST_TEXT = 40


class User(Protocol):
    """What cannot be used after its process set."""

    def process_set_removed(self) -> None:
        """remove_process_set() has ended the set."""


class ProcessSet:
    """Ranks that run operations together. add_process_set() registers it; the object then has a number, which is the
    same on all ranks.

    Arguments:
        ranks_or_comm: the ranks, in any order. Horovod's other form, a communicator of MPI, raises Unsupported.
    """

    process_set_id: int | None = None
    """The number; None: it is not registered."""
    mpi_comm = None
    """Horovod's; always None."""

    def __init__(self, ranks_or_comm: Iterable[int]) -> None:
        if not isinstance(ranks_or_comm, Iterable):
            raise Unsupported(f"ProcessSet({ranks_or_comm!r}): give a list of ranks; HiPress takes no communicators")
        ranks = list(ranks_or_comm)
        wrong = [rank for rank in ranks if isinstance(rank, bool) or not isinstance(rank, int)]
        if wrong:
            raise InvalidArgument(f"ProcessSet({ranks!r}): a rank is an integer, and {wrong[0]!r} is none")
        self._ranks = sorted(ranks)
        #: Weak: the engine keeps its sets, and must end with its last user.
        self._process: weakref.ref[Runtime] | None = None
        #: The lists of tensors whose gradients travel among its ranks.
        self.users: weakref.WeakSet[User] = weakref.WeakSet()

    @property
    def ranks(self) -> list[int]:
        """The ranks, in rising order."""
        return list(self._ranks)

    def size(self) -> int:
        """The number of its ranks. Raises InvalidArgument unless the set is registered."""
        return len(self._registered())

    def rank(self) -> int:
        """The position of this rank in the set, from 0. Raises InvalidArgument if it is not in the set."""
        check(self)
        return self._registered().index(runtime.rank())

    def included(self) -> bool:
        """Whether this rank is in the set. Raises InvalidArgument unless the set is registered."""
        return runtime.rank() in self._registered()

    @property
    def among(self) -> list[int]:
        """Its ranks as the core takes them: empty for all ranks of the job."""
        ranks = self._registered()
        return [] if self.process_set_id == 0 else ranks

    def named(self, name: str) -> str:
        """A tensor's name among the ranks of the job: two sets may use one name at the same time."""
        return name + self._suffix()

    def numbered(self, name: str) -> str:
        """`name` with the number of this call in the set, see Runtime.numbered()."""
        return runtime.current().numbered(name, self._suffix())

    def _suffix(self) -> str:
        among = self.among
        return f" among {_text(among)}" if among else ""

    def invalidate(self) -> None:
        """Horovod's: the set has no number any more. It keeps its ranks, so add_process_set() takes it again."""
        self.process_set_id = self._process = None
        for user in self.users:
            user.process_set_removed()
        self.users.clear()

    def __deepcopy__(self, memo: object) -> ProcessSet:
        """The set itself: a copy of a model has the model's set."""
        return self

    def __reduce__(self) -> tuple[Any, ...] | str:
        """Pickles the ranks. The program that loads them registers a set of its own."""
        return ProcessSet, (self.ranks,)

    def _registered(self) -> list[int]:
        process = runtime.current()
        if self.process_set_id is None:
            raise InvalidArgument(
                f"{self} is not registered: call add_process_set() with it on all ranks, and use it until "
                "remove_process_set()"
            )
        if not self._is_of(process):
            raise InvalidArgument(f"{self} was registered before the last shutdown(): call add_process_set() again")
        return self._ranks

    def _is_of(self, process: Runtime) -> bool:
        return self._process is not None and self._process() is process

    def _set_number(self, number: int | None, process: Runtime) -> None:
        self.process_set_id, self._process = number, weakref.ref(process)

    def __repr__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks}, mpi_comm={self.mpi_comm})"


class _AllRanks(ProcessSet):
    process_set_id = 0

    def __init__(self) -> None:
        super().__init__([])

    @property
    def ranks(self) -> list[int]:
        return list(range(runtime.size())) if runtime.is_initialized() else []

    def __reduce__(self) -> str:
        return "global_process_set"

    def _registered(self) -> list[int]:
        return list(range(runtime.size()))


global_process_set: ProcessSet = _AllRanks()
"""All ranks."""


def add_process_set(process_set: ProcessSet | Iterable[int]) -> ProcessSet:
    """Registers a process set, or a list of ranks, and returns it. All ranks of the job call it, in the same order.

    Raises InvalidArgument for ranks that the job does not have, for a rank that is given twice, for no ranks, and for
    the ranks of a registered set; Mismatch if the ranks' calls differ; Timeout if a rank does not call it.
    """
    wanted = process_set if isinstance(process_set, ProcessSet) else ProcessSet(process_set)
    _agree(lambda: {"the process set that they add": str(_new(wanted).ranks)})
    return _register(wanted, _next_number())


def remove_process_set(process_set: ProcessSet) -> bool:
    """Ends a process set, which add_process_set() may register again. All ranks of the job call it, in the same order.

    Returns whether the set has ended: False for `global_process_set` and for a set that is not registered. Optimizers
    that use the set cannot be used any more. Raises InvalidArgument if one of its operations is in flight, or if it was
    registered before the last shutdown(); Mismatch, Timeout as add_process_set() does.
    """
    if not isinstance(process_set, ProcessSet):
        raise InvalidArgument(f"remove_process_set({process_set!r}): give the result of add_process_set()")
    if process_set.process_set_id in (None, 0):
        return False

    def describe() -> dict[str, str]:
        ranks = process_set._registered()
        ending = process_set.named("")
        waiting = [name for name in runtime.current().in_flight if name.endswith(ending)]
        if waiting:
            raise InvalidArgument(f"{process_set} is in use: synchronize() '{waiting[0]}' before you remove the set")
        return {"the process set that they remove": str(ranks)}

    _agree(describe)
    for each in {process_set, _added().pop(process_set.process_set_id or 0, process_set)}:
        each.invalidate()
    return True


def add_of_each_rank(ranks: Iterable[int]) -> ProcessSet:
    """Registers the sets that the ranks give, where each rank gives its own, and returns this rank's. Sets that are
    registered already stay. All ranks of the job call it.

    Raises InvalidArgument, on every rank, for ranks that the job does not have, or no ranks; Timeout.
    """
    own = sorted(ranks)
    gathered = runtime.current().engine.allgather("process sets of ranks", json.dumps(own).encode())
    for each in sorted({tuple(json.loads(given)) for given in gathered}):
        if _found(each) is None:  # in one order on all ranks
            _register(_checked(ProcessSet(each)), _next_number())
    found = _found(own)
    assert found is not None
    return found


def add_at_start(process_sets: Sequence[ProcessSet | Iterable[int]] | str | None) -> None:
    """Registers the sets of Horovod's `init(process_sets=...)`. Equal sets get one number. Raises InvalidArgument for
    another text than "dynamic", and the errors of add_process_set().
    """
    if isinstance(process_sets, str):
        if process_sets.lower() != "dynamic":
            raise InvalidArgument(f'process_sets={process_sets!r}: give a list of process sets, or "dynamic"')
        return
    for given in process_sets or ():
        wanted = given if isinstance(given, ProcessSet) else ProcessSet(given)
        equal = _found(wanted.ranks)
        if equal is None:
            add_process_set(wanted)
        elif wanted is not global_process_set:
            wanted._set_number(equal.process_set_id, runtime.current())


def check(process_set: Any) -> ProcessSet:
    """The set. Raises InvalidArgument unless it is a registered one that this rank is in."""
    if not isinstance(process_set, ProcessSet):
        raise InvalidArgument(
            f"process_set={process_set!r}: give global_process_set or the result of add_process_set()"
        )
    if process_set is not global_process_set and not process_set.included():
        raise InvalidArgument(
            f"rank {runtime.rank()} is not in {process_set}: only its ranks call its operations "
            "(process_set.included() says whether this rank is one)"
        )
    return process_set


def of_gradients(process_set: Any) -> ProcessSet:
    """The set in which this rank synchronises gradients: this rank alone, if it is not in `process_set`, as in Horovod.

    Raises InvalidArgument unless it is a registered set.
    """
    if not isinstance(process_set, ProcessSet) or process_set is global_process_set or process_set.included():
        return check(process_set)
    process = runtime.current()
    if _ALONE not in process.kept:
        process.kept[_ALONE] = alone = ProcessSet([runtime.rank()])
        alone._set_number(-1, process)
    alone_set: ProcessSet = process.kept[_ALONE]
    return alone_set


def by_number(number: int) -> ProcessSet:
    """The registered set with this number. Raises InvalidArgument."""
    if number == 0:
        return global_process_set
    if number not in _added():
        raise InvalidArgument(f"there is no process set {number}: add_process_set() returns sets with their numbers")
    return _added()[number]


def check_all_ranks(process_set: Any, what: str) -> None:
    """Raises Unsupported, for `what`, unless it is `global_process_set`."""
    if check(process_set) is not global_process_set:
        raise Unsupported(f"{what} measures and decides among all ranks: give it without process_set")


def _added() -> dict[int, ProcessSet]:
    added: dict[int, ProcessSet] = runtime.current().kept.setdefault(_ADDED, {})
    return added


def _found(ranks: Sequence[int]) -> ProcessSet | None:
    """The registered set of these ranks."""
    registered = (global_process_set, *_added().values())
    return next((each for each in registered if each.ranks == list(ranks)), None)


def _new(wanted: ProcessSet) -> ProcessSet:
    """`wanted`. Raises InvalidArgument if it cannot be added."""
    if wanted.process_set_id is not None and wanted._is_of(runtime.current()):
        raise InvalidArgument(f"{wanted} is registered already")
    equal = _found(_checked(wanted).ranks)
    if equal is not None:
        raise InvalidArgument(f"the ranks {wanted.ranks} are registered already, as {equal}: use that set")
    return wanted


def _checked(wanted: ProcessSet) -> ProcessSet:
    """`wanted`. Raises InvalidArgument if it has other ranks than those of the job, or a rank twice."""
    ranks, size = wanted.ranks, runtime.size()
    if not ranks:
        raise InvalidArgument("a process set has one rank at least")
    if len(set(ranks)) < len(ranks) or ranks[0] < 0 or ranks[-1] >= size:
        raise InvalidArgument(f"a process set has ranks of 0 to {size - 1}, each once, not {ranks}")
    return wanted


def _next_number() -> int:
    """The least free number: numbers come again, as Horovod's do."""
    added = _added()
    return next(number for number in range(1, len(added) + 2) if number not in added)


def _register(process_set: ProcessSet, number: int) -> ProcessSet:
    process_set._set_number(number, runtime.current())
    _added()[number] = process_set
    return process_set


def _agree(describe: Callable[[], Mapping[str, str]]) -> None:
    # Imported here, because its own imports need process sets.
    from hipress.adapter.agreement import agree_among

    engine = runtime.current().engine

    def gather(mine: Any) -> list[Any]:
        return [json.loads(each) for each in engine.allgather("process sets", json.dumps(mine).encode())]

    agree_among(describe, gather, runtime.rank())


def _text(ranks: Sequence[int]) -> str:
    text: str = load_core().process_set_text(ranks)
    if len(text) <= _MOST_TEXT:
        return text
    return f"{len(ranks)} ranks from {ranks[0]} to {ranks[-1]} ({hashlib.sha256(text.encode()).hexdigest()[:8]})"
