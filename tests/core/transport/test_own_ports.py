# SPDX-License-Identifier: Apache-2.0
"""HiPress closes and restricts what UCX has opened, and nothing else of the process: a C++ program checks this with the
installed library."""

from __future__ import annotations

import subprocess

from hipress import _core
from tests.core.transport.programs import program


def test_other_ports_and_segments_of_the_process_stay_as_they_are() -> None:
    devices = [name for name, problem, loopback, _ in _core.network_interfaces() if not problem and not loopback]
    command = [str(program("own_ports")), *devices[:1]]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stdout) == (0, "")
