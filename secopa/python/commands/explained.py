# SPDX-License-Identifier: Apache-2.0
"""What a command says when it cannot do what it was asked for."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec

import typer

from hipress.errors import HipressError

_P = ParamSpec("_P")


def explained(command: Callable[_P, None]) -> Callable[_P, None]:
    """Errors of files and options are told without a traceback; exit code 2."""

    @functools.wraps(command)
    def wrapped(*args: _P.args, **kwargs: _P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except HipressError as error:
            typer.echo(f"hipress: {error}", err=True)
            raise typer.Exit(2) from None

    return wrapped
