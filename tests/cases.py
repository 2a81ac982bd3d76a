# SPDX-License-Identifier: Apache-2.0
"""Grids of small cases: one test runs all cases of a grid and reports every case that fails.

`each` replaces `pytest.mark.parametrize`: pytest needs about a millisecond for each test, which is more than most
numeric cases take.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import reprlib
from collections.abc import Callable, Iterable
from typing import Any

import pytest

#: Tracebacks in one report; further failures are listed with their parameters alone.
SHOWN = 10

Test = Callable[..., None]


def each(names: str | tuple[str, ...], values: Iterable[Any]) -> Callable[[Test], Test]:
    """Runs the test for each of `values`, within one test; several decorators make the product of their values.

    Fixtures are made once for all cases: a case must not leave anything behind in them.
    """
    parameters = (names,) if isinstance(names, str) else tuple(names)
    rows = [dict(zip(parameters, (value,) if isinstance(names, str) else value, strict=True)) for value in values]
    assert rows, f"no cases of {', '.join(parameters)}"

    def decorate(test: Test) -> Test:
        grid = [rows, *getattr(test, "grid", [])]
        body = getattr(test, "body", test)

        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            run_cases(body, grid, fixtures)

        signature = inspect.signature(test)
        kept = [parameter for name, parameter in signature.parameters.items() if name not in parameters]
        assert len(kept) == len(signature.parameters) - len(parameters), f"{test.__name__} has no {parameters}"
        run.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        run.grid, run.body = grid, body  # type: ignore[attr-defined]
        return run

    return decorate


def cases_of(test: Test) -> int:
    """How many cases a test decorated with `each` runs."""
    count = 1
    for rows in getattr(test, "grid", []):
        count *= len(rows)
    return count


def run_cases(body: Test, grid: list[list[dict[str, Any]]], fixtures: dict[str, Any]) -> None:
    failures: list[str] = []
    skips: list[BaseException] = []
    count = 0
    for rows in itertools.product(*grid):
        case = {name: value for row in rows for name, value in row.items()}
        count += 1
        try:
            body(**fixtures, **case)
        except pytest.skip.Exception as skip:
            skips.append(skip)
        except (Exception, pytest.fail.Exception) as error:
            failures.append(_described(case, error, with_traceback=len(failures) < SHOWN))
            if str(error).startswith("Timeout "):  # pytest-timeout stops a test only once
                failures.append("The cases behind this one have not been run.")
                break
    if failures:
        pytest.fail(f"{len(failures)} of {count} cases failed\n" + "\n".join(failures), pytrace=False)
    if len(skips) == count:
        raise skips[0]


def _described(case: dict[str, Any], error: BaseException, *, with_traceback: bool) -> str:
    line = f"--- {', '.join(f'{name}={reprlib.repr(value)}' for name, value in case.items())}"
    if not with_traceback:
        return f"{line}: {type(error).__name__}"
    info = pytest.ExceptionInfo.from_exception(error)
    info.traceback = info.traceback[1:]  # without this file's call
    return f"{line}\n{info.getrepr(style='short')}"
