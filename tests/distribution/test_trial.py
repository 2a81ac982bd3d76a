# SPDX-License-Identifier: Apache-2.0
"""The trial of a wheel in a new environment refuses wrong input before it installs anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from distribution.interpreters import interpreter
from distribution.trial import STEP, tried


def test_a_wheel_of_no_version_of_cpython_is_refused() -> None:
    with pytest.raises(RuntimeError, match="for no version of CPython 3"):
        tried(Path("hipress-0.1.0-py3-none-any.whl"))


def test_a_version_that_is_not_installed_is_named() -> None:
    with pytest.raises(RuntimeError, match=r"no Python 3\.99: install it"):
        interpreter("3.99")


def test_the_step_that_it_runs_is_there() -> None:
    assert STEP.exists()
