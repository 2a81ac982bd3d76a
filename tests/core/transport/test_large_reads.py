# SPDX-License-Identifier: Apache-2.0
"""A rank reads more than 2 GiB of a neighbour's memory: a C++ program checks this with the installed library."""

from __future__ import annotations

import subprocess

from tests.core.transport.programs import program


def test_more_than_linux_reads_in_one_call() -> None:
    result = subprocess.run([str(program("large_reads"))], capture_output=True, text=True, timeout=120)
    assert (result.returncode, result.stdout) == (0, "")
