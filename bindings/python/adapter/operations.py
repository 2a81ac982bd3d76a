# SPDX-License-Identifier: Apache-2.0
"""Operations in flight, in every framework: `..._async()` returns an Operation for `poll()` and `synchronize()`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar, cast

from hipress import runtime
from hipress.adapter.operation_names import operation_name
from hipress.adapter.process_sets import ProcessSet, global_process_set
from hipress.errors import DuplicateName, HipressError, InvalidArgument

_Result = TypeVar("_Result")
_Other = TypeVar("_Other")


class _Part(Protocol):
    """One operation of the core."""

    def poll(self) -> bool: ...
    def wait(self) -> Any: ...


class Submitted:
    """An operation that the engine knows by a number."""

    def __init__(self, operation: int) -> None:
        self._operation = operation
        self._engine = runtime.current().engine

    def poll(self) -> bool:
        ended: bool = self._engine.poll(self._operation)
        return ended

    def wait(self) -> None:
        self._engine.wait(self._operation)


class Operation(Generic[_Result]):
    """An operation in flight. No other operation can have its name before the script has waited for it.

    Arguments:
        names: the name by which ranks match it; for a group, the names of all parts.
        parts: the operations of the core.
        result: makes the result from the list of the values that the parts' `wait()` returns.
    """

    def __init__(self, names: Sequence[str], parts: Sequence[_Part], result: Callable[[list[Any]], _Result]) -> None:
        self._names = names
        self._parts = parts
        self._result = result
        self._ended = False

    def poll(self) -> bool:
        """Whether the operation has ended, so that `wait()` returns or raises at once."""
        return all(part.poll() for part in self._parts)

    def wait(self) -> _Result:
        """Waits until the operation has ended and returns its result. Call it once.

        Raises the operation's error: PeerLost or Timeout (naming the rank and the tensor), Mismatch, CorruptPayload.
        """
        if self._ended:
            raise InvalidArgument(
                f"'{self._names[0]}' was synchronised already: its result is what the first call returned"
            )
        self._ended = True
        waited, failures = [], []
        for part in self._parts:  # after a failure, too: every part needs a wait
            try:
                waited.append(part.wait())
            except HipressError as failure:
                failures.append(failure)
        runtime.current().in_flight.difference_update(self._names)
        if failures:
            raise failures[0]
        return self._result(waited)

    def __call__(self) -> _Result:
        """Calls wait(), because Horovod's `sparse_allreduce_async()` returns a function."""
        return self.wait()

    def then(self, convert: Callable[[_Result], _Other]) -> Operation[_Other]:
        """This operation, with `convert(result)` as its result."""
        result = self._result
        converted = cast("Operation[_Other]", self)
        converted._result = lambda waited: convert(result(waited))
        return converted


def grouped(operations: Sequence[Operation[_Result]]) -> Operation[list[_Result]]:
    """One operation for all `operations`. Its result is the list of their results."""
    names = [name for operation in operations for name in operation._names]
    return Operation(names, operations, list)


def in_flight(kind: str, name: str | None, process_set: ProcessSet = global_process_set) -> str:
    """The operation's name, which counts as in flight from here on.

    Raises DuplicateName if an operation of that name is in flight, and the errors of operation_name().
    """
    process = runtime.current()
    full = operation_name(kind, name, process_set)
    if full in process.in_flight:
        raise DuplicateName(f"'{name}' is in flight already: synchronize() it first, or give this one another name")
    process.in_flight.add(full)
    return full


def poll(handle: Operation[_Result]) -> bool:
    """Whether the operation has ended, so that `synchronize(handle)` returns or raises at once."""
    return _checked(handle).poll()


def synchronize(handle: Operation[_Result]) -> _Result:
    """Waits for an operation and returns its result. Call it once for each operation.

    Raises the operation's error: PeerLost or Timeout (naming the rank and the tensor), Mismatch, CorruptPayload.
    """
    return _checked(handle).wait()


def _checked(handle: Operation[_Result]) -> Operation[_Result]:
    runtime.current()
    if not isinstance(handle, Operation):
        raise InvalidArgument(f"{handle!r} is not the handle of an operation: give the result of an _async function")
    return handle
