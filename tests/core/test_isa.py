# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import subprocess
import sys

import pytest

from hipress import _core
from hipress.errors import InvalidArgument


def level_with(environment: str) -> str:
    program = "from hipress import _core; print(_core.isa_level())"
    variables = os.environ | {"HIPRESS_ISA": environment}
    run = subprocess.run([sys.executable, "-c", program], env=variables, capture_output=True, text=True, check=False)
    return run.stdout.strip() or run.stderr


def test_the_best_level_is_the_default() -> None:
    assert level_with("") == _core.isa_levels()[-1]


def test_the_environment_forces_a_level() -> None:
    for level in _core.isa_levels():
        assert level_with(level) == level


def test_a_wrong_environment_is_an_error() -> None:
    assert "InvalidArgument" in level_with("mmx")
    assert "HIPRESS_ISA" in level_with("mmx")


@pytest.mark.parametrize("level", ["", "sse9", "X86-64-V3"])
def test_unknown_levels_are_refused(level: str) -> None:
    with pytest.raises(InvalidArgument, match="generic, x86-64-v3, x86-64-v4"):
        _core.set_isa_level(level)
