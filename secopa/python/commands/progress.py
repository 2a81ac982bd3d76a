# SPDX-License-Identifier: Apache-2.0
"""Progress of a command that takes longer than two seconds: a bar on a terminal, lines in a file or a pipe.

Both go to standard error, so that a program can read the output of a command.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.progress import Task
    from rich.progress_bar import ProgressBar

#: Seconds before the first line and between two lines: a reader does not take a shorter silence for a hang.
_QUIET_S = 2.0
_BETWEEN_S = 5.0


class Stage(Protocol):
    """Tells the reader what the command does now."""

    def __call__(self, what: str, /) -> None: ...


def silent(_what: str, /) -> None:
    """The stage of a rank that has no reader."""


@contextmanager
def progress(command: str, seconds: float | None = None) -> Iterator[Stage]:
    """Shows the stages of `command` until the block ends. `seconds`: its approximate duration, if it is known."""
    with _bar(command, seconds) if sys.stderr.isatty() else _lines(command, seconds) as stage:
        yield stage


@contextmanager
def _lines(command: str, seconds: float | None) -> Iterator[Stage]:
    """Writes lines. A command that takes less than two seconds writes none."""
    start = time.monotonic()
    due = start + _QUIET_S
    of = "" if seconds is None else f" of about {seconds:.0f} s"

    def stage(what: str, /) -> None:
        nonlocal due
        now = time.monotonic()
        if now >= due:
            due = now + _BETWEEN_S
            passed = f"{now - start:.0f} s{of}" if seconds is None else f"{now - start:.0f}{of}"
            print(f"{command}: {what} ({passed})", file=sys.stderr, flush=True)

    yield stage


@contextmanager
def _bar(command: str, seconds: float | None) -> Iterator[Stage]:
    from rich.console import Console
    from rich.progress import Progress, ProgressColumn, TextColumn, TimeElapsedColumn
    from rich.progress_bar import ProgressBar

    class Passed(ProgressColumn):
        """A bar that fills with time, because the stages of a measurement share a budget of seconds."""

        def render(self, task: Task) -> ProgressBar:
            passed = task.elapsed or 0.0
            return ProgressBar(
                total=task.total,
                completed=min(passed, task.total or passed),
                width=30,
                pulse=task.total is None or passed > task.total,
            )

    columns = (TextColumn("{task.description}", markup=False), Passed(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(command, total=seconds)
        yield lambda what, /: shown.update(task, description=f"{command}: {what}")
