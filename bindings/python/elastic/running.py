# SPDX-License-Identifier: Apache-2.0
"""run(): calls a training function again, in a new world of ranks, until it returns."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, Protocol, TypeVar, cast

from hipress.elastic.interrupts import HostsUpdatedInterrupt
from hipress.elastic.state import State
from hipress.elastic.worlds import WorldsLeft, ends_world, meet, reset
from hipress.errors import HipressError
from hipress.launch.worlds.seat import seat
from hipress.log import logger

_P = ParamSpec("_P")
_Result = TypeVar("_Result")
_AnyState = TypeVar("_AnyState", bound=State)


class _Error(Protocol):
    """Finds HiPress' error in an error of a framework."""

    def __call__(self, error: BaseException) -> HipressError | None: ...


def own_error(error: BaseException) -> HipressError | None:
    """The error, if it is HiPress' own."""
    return error if isinstance(error, HipressError) else None


def run(
    func: Callable[Concatenate[_AnyState, _P], _Result],
) -> Callable[Concatenate[_AnyState, _P], _Result]:
    """A decorator: makes a training function elastic, as Horovod's of this name.

    The function gets the state first. When a rank is lost, all others restore the last commit and call the function
    again in a world without it; when processes wait to come in, or one is to leave, the ranks change at the next
    commit. Every error of the function itself ends the rank. Without `hipress run --elastic` a lost rank is an error.
    """
    return run_fn(func, reset)


def run_fn(
    func: Callable[Concatenate[_AnyState, _P], _Result],
    reset: Callable[[], None],
    find_error: _Error = own_error,
) -> Callable[Concatenate[_AnyState, _P], _Result]:
    """run() with another way into the next world, and for errors that a framework has wrapped."""

    def wrapper(state: _AnyState, *args: _P.args, **kwargs: _P.kwargs) -> _Result:
        own = seat()
        if own is not None:
            own.use("hipress.elastic.run()", repeats=True)
        worlds_left, skip_sync = WorldsLeft(), False
        leave: Callable[[], None] | None = None  # what to do before this rank leaves its world; None: it stays
        while True:
            try:
                if leave is not None:
                    leave()
                    reset()
                    state.on_reset()
                    leave = None
                if own is not None:
                    meet(own)
                if own is not None or not skip_sync:  # in another world codecs' states move, at least
                    state.sync()
                result = func(state, *args, **kwargs)
                if own is not None:
                    own.finish()
                return result
            except HostsUpdatedInterrupt as interrupt:
                skip_sync, leave = interrupt.skip_sync, state.before_reset
            except Exception as error:
                failure = find_error(error)
                if failure is None or not ends_world(failure, own):
                    raise
                if own is not None:
                    if not worlds_left.count(own, failure):
                        raise
                    logger().info(f"goes back to commit {own.commits}, because {failure}")
                skip_sync, leave = False, state.restore

    return cast("Callable[Concatenate[_AnyState, _P], _Result]", functools.update_wrapper(wrapper, func))
