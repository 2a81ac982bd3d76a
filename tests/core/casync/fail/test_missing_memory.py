# SPDX-License-Identifier: Apache-2.0
"""Memory that is missing on a thread without a caller ends the job with the tensor's name: the stress test's scenario,
with the installed library."""

from __future__ import annotations

import subprocess

import pytest

from tests.core.transport.programs import program

_SOURCES = [
    "tests/core/casync/fail/missing_memory.cc",
    "tests/core/stress/scenarios/memory.cc",
    "tests/core/stress/world/world.cc",
]


@pytest.mark.slow
def test_missing_memory_ends_the_job_and_stops_no_link_and_no_lane() -> None:
    result = subprocess.run([str(program("missing_memory", *_SOURCES))], capture_output=True, text=True, timeout=120)
    assert (result.returncode, result.stderr) == (0, "")
