# SPDX-License-Identifier: Apache-2.0
"""Reports a step that a rank has begun but, because of an exception, not ended: all ranks get an error.

An adapter that hands gradients over adds a `Step` to `Runtime.steps`. If the rank ends in the middle of a step, the
error of the other ranks says why.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, NoReturn, Protocol

from hipress import errors

if TYPE_CHECKING:
    from hipress.lifetime import Runtime

#: Number of characters of an exception's text that the errors of other ranks repeat.
_LONGEST = 1000


class Step(Protocol):
    """An adapter's current step."""

    def unfinished(self) -> str | None:
        """This rank's exception and its place, if the rank has handed over some gradients but not all; else None."""

    def steps_taken(self) -> int:
        """Number of steps that this rank has completed."""


def described(error: BaseException) -> str:
    """The type and the text of an exception, such as "ValueError: the text"."""
    text = str(error).strip()
    name = type(error).__name__
    return f"{name}: {text[:_LONGEST]}" if text else name


def end_job(process: Runtime, what: str) -> NoReturn:
    """Raises Mismatch on all ranks; or, on this rank, the error that has already ended the job.

    Arguments:
        what: the text after "rank 2": the exception, its place, and advice.
    """
    message = f"rank {process.place.rank} {what}"
    process.engine.fail("Mismatch", message)
    process.engine.raise_failure("ending the job")
    raise errors.Mismatch(message)


def end_step(process: Runtime, what: str) -> NoReturn:
    """Raises Mismatch on all ranks; on this rank with `what`, even if the error of another rank came first.

    Arguments:
        what: the text after "rank 2": what this rank could not compute, and why.
    """
    message = f"rank {process.place.rank} {what}"
    process.engine.fail("Mismatch", message)
    raise errors.Mismatch(message)


def update_raised(process: Runtime, error: BaseException, where: str) -> None:
    """Gives all ranks an error if an update raised, which may have changed some parameters. A single rank goes on."""
    if process.place.size == 1:
        return
    process.engine.fail(
        "Mismatch",
        f"rank {process.place.rank} raised {described(error)} in {where}, and may have updated some parameters only: "
        "they are not the same on all ranks any more. Start again from a checkpoint",
    )


def reason_of_end(process: Runtime, *, at_exit: bool) -> str:
    """The reason in a text such as "rank 2 has left (reason)"."""
    if at_exit:
        if error := _uncaught():
            return f"it ended with {error}"
    elif (handled := sys.exc_info()[1]) is not None:
        return f"it called shutdown() while it handled {described(handled)}"
    steps = [step.steps_taken() for step in process.steps]
    how = "it ended without shutdown()" if at_exit else "it called shutdown()"
    return f"{how} after {max(steps)} steps" if steps else how


def tell_unfinished(process: Runtime) -> None:
    """Reports the unfinished steps of this rank when it leaves: the other ranks would wait for their rest."""
    for step in list(process.steps):
        tell(process, step.unfinished())


def tell(process: Runtime, what: str | None) -> None:
    """Gives all ranks an error if `what` describes a step, because the step can never end."""
    if what is not None and process.place.size > 1:
        process.engine.fail("PeerLost", f"rank {process.place.rank} ended in the middle of a step: it {what}")


def _uncaught() -> str:
    """The exception that ended the main thread, or else the last exception that ended another thread."""
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
