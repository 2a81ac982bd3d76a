# SPDX-License-Identifier: Apache-2.0
"""A rank that waits long in the control plane logs the ranks for which it waits, before its deadline."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from hipress import _core
from hipress.errors import Timeout
from tests.core.control.control_ranks import PATIENCE, TOKEN, wait_until

pytestmark = pytest.mark.timeout(60)

#: Seconds between two warnings.
INTERVAL = 0.4

_SERVER = f"""
import sys
from hipress import _core
server = _core.ControlServer(world_size=2, token={TOKEN!r}, heartbeat=0.05, heartbeat_limit=60.0)
print(server.port, flush=True)
sys.stdin.read()
"""


def join(port: int, rank: int, size: int) -> _core.ControlPlane:
    plane, _ = _core.connect_control(
        rank=rank, world_size=size, port=port, token=TOKEN, heartbeat=0.05, heartbeat_limit=60.0, stall_warning=INTERVAL
    )
    return plane


def test_rank_0_names_the_ranks_that_have_not_come(capfd: pytest.CaptureFixture[str]) -> None:
    beats = {"heartbeat": 0.05, "heartbeat_limit": 60.0}
    with closing(_core.ControlServer(world_size=3, token=TOKEN, stall_warning=INTERVAL, **beats)) as server:
        planes = [join(server.port, rank, 3) for rank in range(3)]
        with ThreadPoolExecutor() as pool:
            waiting = [pool.submit(planes[rank].allgather, "list.model", b"", PATIENCE) for rank in (0, 2)]
            time.sleep(3.5 * INTERVAL)
            waiting.append(pool.submit(planes[1].allgather, "list.model", b"", PATIENCE))
            assert [len(future.result()) for future in waiting] == [3, 3, 3]
        said = [line for line in capfd.readouterr().err.splitlines() if line.startswith("hipress: ")]
        assert 2 <= len(said) <= 4, said
        for line in said:
            assert line.startswith(
                "hipress: rank 0: rank 1 has not arrived at 'list.model'; ranks 0 and 2 have waited for "
            )
            assert "pid" in line
        # No call waits now, so there is no warning.
        time.sleep(2 * INTERVAL)
        assert not capfd.readouterr().err
        for plane in planes:
            plane.close()


def test_a_rank_says_that_rank_0_is_silent(capfd: pytest.CaptureFixture[str]) -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", _SERVER], text=True, **pipes) as server:  # type: ignore[call-overload]
        try:
            plane = join(int(server.stdout.readline()), 1, 2)
            assert plane.declare("w", "float32[1]", False, 5.0) >= 1
            os.kill(server.pid, signal.SIGSTOP)
            wait_until(lambda: " T " in Path(f"/proc/{server.pid}/stat").read_text())
            with pytest.raises(Timeout, match="rank 0 does not answer"):
                plane.declare("v", "float32[1]", False, 0.0)  # the call has two seconds of grace
            said = [line for line in capfd.readouterr().err.splitlines() if line.startswith("hipress: ")]
            assert 1 <= len(said) <= 5
            assert all(line.startswith("hipress: rank 1: rank 0 has sent nothing for ") for line in said)
            assert all("while this rank waits for the number of tensor 'v'" in line for line in said)
            plane.close()
        finally:
            server.kill()
