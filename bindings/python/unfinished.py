# SPDX-License-Identifier: Apache-2.0
"""Steps that a rank has begun and, because of an exception, not ended: they become an error of all ranks.

An adapter that hands gradients over keeps a `Step` up to date and adds it to `Runtime.steps`. If the rank ends in the
middle of one, the other ranks learn why.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, NoReturn, Protocol

from hipress import errors

if TYPE_CHECKING:
    from hipress.lifetime import Runtime

#: Characters of an exception's text that errors of other ranks repeat.
_LONGEST = 1000


class Step(Protocol):
    """An adapter's current step."""

    def unfinished(self) -> str | None:
        """The exception of this rank, and its place, if the rank has handed over some gradients and not the rest."""

    def steps_taken(self) -> int:
        """How many steps this rank has ended well."""


def described(error: BaseException) -> str:
    """Type and text: "ValueError: the text"."""
    text = str(error).strip()
    name = type(error).__name__
    return f"{name}: {text[:_LONGEST]}" if text else name


def end_job(process: Runtime, what: str) -> NoReturn:
    """Raises Mismatch, here and on all other ranks; or the error that has ended the job before.

    Arguments:
        what: completes "rank 2 ...": the exception, its place, and what to do.
    """
    message = f"rank {process.place.rank} {what}"
    process.engine.fail("Mismatch", message)
    process.engine.raise_failure("ending the job")
    raise errors.Mismatch(message)


def update_raised(process: Runtime, error: BaseException, where: str) -> None:
    """An update raised: some parameters may be new. All ranks get an error; a world of one goes on."""
    if process.place.size == 1:
        return
    process.engine.fail(
        "Mismatch",
        f"rank {process.place.rank} raised {described(error)} in {where}, and may have updated some parameters only: "
        "they are not the same on all ranks any more. Start again from a checkpoint",
    )


def reason_of_end(process: Runtime, *, at_exit: bool) -> str:
    """Completes "rank 2 has left (...)"."""
    if at_exit:
        if error := _uncaught():
            return f"it ended with {error}"
    elif (handled := sys.exc_info()[1]) is not None:
        return f"it called shutdown() while it handled {described(handled)}"
    steps = [step.steps_taken() for step in process.steps]
    how = "it ended without shutdown()" if at_exit else "it called shutdown()"
    return f"{how} after {max(steps)} steps" if steps else how


def tell_unfinished(process: Runtime) -> None:
    """This rank leaves: if it had begun a step, the others wait for the rest of it in vain."""
    for step in list(process.steps):
        tell(process, step.unfinished())


def tell(process: Runtime, what: str | None) -> None:
    """The step that `what` describes, if any, cannot end any more: an error of all ranks."""
    if what is not None and process.place.size > 1:
        process.engine.fail("PeerLost", f"rank {process.place.rank} ended in the middle of a step: it {what}")


def _uncaught() -> str:
    """The exception that ended the main thread, or else the last other thread that an exception ended."""
    error: BaseException | None = getattr(sys, "last_value", None)
    return _of_threads if error is None else described(error)


_of_threads = ""


def listen_to_threads() -> None:
    """Notes the exception that ends a thread, and lets the earlier hook print it."""
    before = threading.excepthook
    if getattr(before, "of_hipress", False):
        return

    def note(arguments: threading.ExceptHookArgs) -> None:
        global _of_threads
        if arguments.exc_value is not None:
            _of_threads = f"{described(arguments.exc_value)} in a thread"
        before(arguments)

    note.of_hipress = True  # type: ignore[attr-defined]
    threading.excepthook = note
