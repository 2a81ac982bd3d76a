# SPDX-License-Identifier: Apache-2.0
"""A process that was forked from a rank is told that it is not the rank."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.launch.conftest import clean_environment

_PROGRAM = """
import os, sys
from hipress import runtime
from hipress.errors import NotInitialized

runtime.init()
child = os.fork()
if child == 0:
    for call in (runtime.init, runtime.rank, runtime.counters):
        try:
            call()
        except NotInitialized as error:
            print(error, flush=True)
    print(runtime.is_initialized(), flush=True)
    runtime.shutdown()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print("rank", runtime.rank(), flush=True)
"""


@pytest.mark.slow
def test_every_call_of_a_forked_process_says_so() -> None:
    environment = clean_environment() | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", _PROGRAM], env=environment, capture_output=True, text=True, timeout=60)
    lines = done.stdout.splitlines()
    assert (done.returncode, len(lines)) == (0, 5), done.stderr
    assert all("was forked from a rank" in line for line in lines[:3])
    assert lines[3:] == ["False", "rank 0"]
