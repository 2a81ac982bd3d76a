# SPDX-License-Identifier: Apache-2.0
"""Prints the errors of commands without a traceback."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec

import typer

from hipress.errors import HipressError

_P = ParamSpec("_P")


def explained(command: Callable[_P, None]) -> Callable[_P, None]:
    """Prints errors without a traceback. The exit code is 1 if the content of a file is wrong, and 2 for other
    errors."""

    @functools.wraps(command)
    def wrapped(*args: _P.args, **kwargs: _P.kwargs) -> None:
        from hipress.secopa.profile.document import MalformedFile

        try:
            command(*args, **kwargs)
        except HipressError as error:
            typer.echo(f"hipress: {error}", err=True)
            raise typer.Exit(1 if isinstance(error, MalformedFile) else 2) from None

    return wrapped
