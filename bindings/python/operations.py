# SPDX-License-Identifier: Apache-2.0
"""Collectives under way: what `..._async()` returns and `poll()` and `synchronize()` take, in every framework."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from hipress import runtime
from hipress.errors import DuplicateName, HipressError, InvalidArgument


class _Part(Protocol):
    """What the core knows an operation by."""

    def poll(self) -> bool: ...
    def wait(self) -> Any: ...


class Submitted:
    """An operation that the engine has a number for."""

    def __init__(self, operation: int) -> None:
        self._operation = operation
        self._engine = runtime.current().engine

    def poll(self) -> bool:
        ended: bool = self._engine.poll(self._operation)
        return ended

    def wait(self) -> None:
        self._engine.wait(self._operation)


class Operation:
    """A collective under way. Its name is its own until it has been waited for.

    Arguments:
        names: as ranks know it; of a group, those of all parts.
        parts: what is under way.
        result: makes the result of what the parts' `wait()` returns.
    """

    def __init__(self, names: Sequence[str], parts: Sequence[_Part], result: Callable[[list[Any]], Any]) -> None:
        self._names = names
        self._parts = parts
        self._result = result
        self._ended = False

    def poll(self) -> bool:
        """Whether it has ended, so that `wait()` returns (or raises) at once."""
        return all(part.poll() for part in self._parts)

    def wait(self) -> Any:
        """Waits until it has ended and returns its result; once.

        Raises what made it fail: PeerLost or Timeout (naming the rank and the tensor), Mismatch, CorruptPayload.
        """
        if self._ended:
            raise InvalidArgument(
                f"'{self._names[0]}' was synchronised already: its result is what the first call returned"
            )
        self._ended = True
        waited, failures = [], []
        for part in self._parts:  # all of them, also if one fails: nobody else will
            try:
                waited.append(part.wait())
            except HipressError as failure:
                failures.append(failure)
        runtime.current().in_flight.difference_update(self._names)
        if failures:
            raise failures[0]
        return self._result(waited)

    def then(self, convert: Callable[[Any], Any]) -> Operation:
        """This operation, with `convert(result)` as its result."""
        result = self._result
        self._result = lambda waited: convert(result(waited))
        return self


def grouped(operations: Sequence[Operation]) -> Operation:
    """All of them as one, whose result is the list of theirs."""
    names = [name for operation in operations for name in operation._names]
    return Operation(names, operations, list)


def named(kind: str, name: str | None) -> str:
    """The name by which ranks match an operation; those without one are matched by the order of the calls.

    Raises DuplicateName if one with that name is in flight. The name is in flight from here on.
    """
    process = runtime.current()
    full = f"{kind}.{name}" if name else process.numbered("unnamed")
    if full in process.in_flight:
        raise DuplicateName(f"'{name}' is in flight already: synchronize() it first, or give this one another name")
    process.in_flight.add(full)
    return full


def poll(handle: Operation) -> bool:
    """Whether the operation has ended, so that `synchronize(handle)` returns (or raises) at once."""
    return _checked(handle).poll()


def synchronize(handle: Operation) -> Any:
    """Waits for an operation and returns its result; once.

    Raises what made it fail: PeerLost or Timeout (naming the rank and the tensor), Mismatch, CorruptPayload.
    """
    return _checked(handle).wait()


def _checked(handle: Operation) -> Operation:
    runtime.current()
    if not isinstance(handle, Operation):
        raise InvalidArgument(f"{handle!r} is not the handle of an operation: what a function ending in _async returns")
    return handle
