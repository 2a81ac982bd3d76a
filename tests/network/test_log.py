# SPDX-License-Identifier: Apache-2.0
"""Rank 0 logs once, at the start, which network the gradients take."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.launch.conftest import HIPRESS, clean_environment

LINE = "gradients take shared memory: all 2 ranks are on one host"


def lines(program: str) -> list[str]:
    """The log lines of two ranks on this host about the network, without the launcher's prefix."""
    program = f"{program}\nfrom hipress import runtime\nruntime.init()\nruntime.shutdown()"
    command = [*HIPRESS, "run", "-np", "2", sys.executable, "-c", program]
    done = subprocess.run(command, env=clean_environment(), capture_output=True, text=True, timeout=120.0)
    assert done.returncode == 0, done.stderr
    return [line for line in (done.stdout + done.stderr).splitlines() if "gradients" in line]


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("", f"hipress: {LINE}"),
        ("import logging; logging.basicConfig(level=logging.WARNING)", f"INFO:hipress:{LINE}"),
        ("import logging; logging.getLogger('hipress').setLevel(logging.WARNING)", None),
    ],
    ids=["by default", "with logging configured", "quiet"],
)
def test_one_line_of_rank_0(program: str, expected: str | None) -> None:
    said = lines(program)
    assert [line.endswith(expected or "") for line in said] == ([True] if expected else [])
    assert all("[1]" not in line for line in said)
