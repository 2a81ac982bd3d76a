# SPDX-License-Identifier: Apache-2.0
"""Operations in flight, in every framework: `..._async()` returns an Operation for `poll()` and `synchronize()`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, cast

from hipress import runtime
from hipress.adapter.operation_names import operation_name
from hipress.adapter.process_sets import ProcessSet, check, global_process_set
from hipress.errors import DuplicateName, HipressError, InvalidArgument, Unsupported

_Result = TypeVar("_Result")
_Other = TypeVar("_Other")
_P = ParamSpec("_P")

#: The errors of a call that this rank alone may refuse.
REFUSALS = (InvalidArgument, Unsupported)
#: Marks an error of which the other ranks need not be told.
_TOLD = "_hipress_told"


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
                setattr(failure, _TOLD, True)  # all ranks have started the operation
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


def tell_refusal(name: str, process_set: ProcessSet, error: BaseException) -> None:
    """Gives the other ranks of the set a Mismatch for the operation `name`, which this rank has refused with `error`:
    they would wait for this rank until their deadline.
    """
    setattr(error, _TOLD, True)
    runtime.current().engine.announce_refusal(name, f"{type(error).__name__}: {error}", process_set.among)


def _tell_refusals(kind: str, names: Sequence[str | None], process_set: ProcessSet, error: BaseException) -> None:
    # In a wrong set or thread, or without init(), the other ranks do not wait for this call.
    with suppress(HipressError):
        for name in names:
            tell_refusal(operation_name(kind, name, check(process_set)), process_set, error)


def tells_refusals(kind: str) -> Callable[[Callable[_P, _Result]], Callable[_P, _Result]]:
    """A decorator for a function that starts an operation of this kind, with parameters `name` and `process_set`, or
    one for each of its `tensors`. If this rank refuses the call, the other ranks are told, and the call counts in the
    order of calls without a name.
    """

    def decorate(function: Callable[_P, _Result]) -> Callable[_P, _Result]:
        @functools.wraps(function)
        def call(*args: _P.args, **kwargs: _P.kwargs) -> _Result:
            try:
                return function(*args, **kwargs)
            except REFUSALS as error:
                if not getattr(error, _TOLD, False):
                    with suppress(TypeError):  # of tensors that have no number
                        given = inspect.signature(function).bind(*args, **kwargs).arguments
                        options = {**given, **given.get("options", {})}
                        name, several = options.get("name"), options.get("tensors")
                        names = [name] if several is None else [part_name(name, part) for part in range(len(several))]
                        _tell_refusals(kind, names, options.get("process_set", global_process_set), error)
                raise

        return call

    return decorate


def part_name(name: str | None, part: int) -> str | None:
    """The name of one tensor of a group."""
    return None if name is None else f"{name}.{part}"


def start_parts(
    kind: str,
    start: Callable[[int], _Result],
    names: Sequence[str | None],
    process_set: ProcessSet = global_process_set,
    end: Callable[[list[_Result]], object] = len,
) -> list[_Result]:
    """The results of `start(part)` for each of the names. If this rank refuses a part, the other ranks are told of it
    and of the parts behind it, and `end` gets the results before it.
    """
    started: list[_Result] = []
    try:
        for part in range(len(names)):
            started.append(start(part))
    except REFUSALS as error:
        _tell_refusals(kind, names[len(started) + 1 :], process_set, error)
        end(started)
        raise
    return started


def in_parts(
    kind: str,
    start: Callable[[int], Operation[_Result]],
    names: Sequence[str | None],
    process_set: ProcessSet = global_process_set,
) -> Operation[list[_Result]]:
    """One operation for all operations that `start(part)` starts; see start_parts()."""
    return grouped(start_parts(kind, start, names, process_set, end=_wait_for_all))


def _wait_for_all(started: Sequence[Operation[Any]]) -> None:
    for each in started:
        with suppress(HipressError):
            each.wait()


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
