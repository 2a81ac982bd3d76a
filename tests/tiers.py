# SPDX-License-Identifier: Apache-2.0
"""Which cases of a test `make test` leaves out: those that show at length what the others show."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def thorough(*values: Any) -> Any:
    """A case for pytest.mark.parametrize that only `make test-thorough` runs."""
    return pytest.param(*values, marks=pytest.mark.thorough)


def usually(usual: Collection[Any], every: Iterable[Any]) -> list[Any]:
    """Cases for pytest.mark.parametrize: of `every`, those outside `usual` are thorough()."""
    return [each if each in usual else thorough(*(each if isinstance(each, tuple) else (each,))) for each in every]
