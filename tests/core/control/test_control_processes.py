# SPDX-License-Identifier: Apache-2.0
"""Processes die, leave and fork over TCP, and the other ranks notice it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import closing

import pytest

from hipress import _core
from hipress.errors import PeerLost, Timeout
from tests.core.control.control_ranks import TOKEN, World, heard, join, wait_until

pytestmark = pytest.mark.timeout(60)


def spawn_rank(port: int, rank: int, size: int, code: str) -> subprocess.Popen[str]:
    program = f"""
import os, sys, time
from hipress import _core
plane, _ = _core.connect_control(rank={rank}, world_size={size}, port={port}, token={TOKEN!r}, timeout=20.0)
print("ready", flush=True)
{code}
"""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def test_killed_process_is_lost_at_once_for_all() -> None:
    with closing(_core.ControlServer(world_size=3, token=TOKEN)) as server:
        planes = [join(server.port, rank, 3) for rank in range(2)]
        ranks = World(planes, None)
        process = spawn_rank(server.port, 2, 3, "time.sleep(60)")
        try:
            waiting = ranks.gather("k", [0, 1])
            time.sleep(0.2)
            killed = time.monotonic()
            os.kill(process.pid, signal.SIGKILL)
            for rank, plane in enumerate(planes):
                message = heard(plane, "lost", 2, patience=2.0)[4]
                assert f"pid {process.pid}" in message
                with pytest.raises(PeerLost, match=r"rank 2 .*closed without a goodbye"):
                    waiting[rank].result(timeout=2)
            assert time.monotonic() - killed < 2
        finally:
            end(process)
            ranks.close()


def test_killed_process_is_lost_although_its_forked_children_live(tcp_server: _core.ControlServer) -> None:
    code = "child = os.fork()\nif child == 0:\n    time.sleep(3); os._exit(0)\nprint(child, flush=True); time.sleep(60)"
    with closing(join(tcp_server.port, 0, 2)) as plane:
        process = spawn_rank(tcp_server.port, 1, 2, code)
        assert process.stdout is not None
        child = int(process.stdout.readline())
        os.kill(process.pid, signal.SIGKILL)
        try:
            heard(plane, "lost", 1, patience=2.0)
            os.kill(child, 0)  # the child process is still alive
        finally:
            end(process)


def test_forked_child_can_exit_normally(tcp_server: _core.ControlServer) -> None:
    code = """
plane.notices()
child = os.fork()
if child == 0:
    try:
        plane.allgather("k", b"", 5.0)
    except Exception as error:
        print(type(error).__name__, flush=True)
    plane.close(); del plane; sys.exit(0)
os.waitpid(child, 0)
print(plane.declare("x", "y", timeout=5.0), flush=True)
"""
    with closing(join(tcp_server.port, 0, 2)):
        process = spawn_rank(tcp_server.port, 1, 2, code)
        try:
            # communicate() would miss output that is in the same buffer as "ready".
            process.wait(timeout=20)
            assert process.stdout is not None
            assert process.stdout.read().split() == ["NotInitialized", "1"]
        finally:
            end(process)


def test_rank_0_that_dies_is_lost_for_all(tcp_world: World) -> None:
    assert tcp_world.server is not None
    waiting = tcp_world.gather("k", [1])
    time.sleep(0.1)
    tcp_world.server.close()
    with pytest.raises(PeerLost, match="rank 0 was lost"):
        waiting[1].result(timeout=5)
    for rank in (1, 2):
        assert "rank 0 was lost" in heard(tcp_world.planes[rank], "lost", 0)[4]
        with pytest.raises(PeerLost, match="rank 0"):
            tcp_world.planes[rank].declare("x", "", timeout=5.0)
        tcp_world.planes[rank].leave(5.0)


def test_rank_0_that_has_left_is_not_lost(tcp_world: World) -> None:
    assert tcp_world.server is not None
    tcp_world.planes[0].leave(0.0)
    heard(tcp_world.planes[1], "left", 0)
    tcp_world.planes[0].close()
    tcp_world.server.close()

    def rank_0_has_left() -> bool:
        with pytest.raises(PeerLost, match="rank 0 has left"):
            tcp_world.planes[1].allgather("k", b"", 5.0)
        return True

    wait_until(rank_0_has_left)
    assert [notice[:2] for notice in tcp_world.planes[1].notices()] == [("left", 0)]


def test_abort_just_before_exit_is_not_lost_on_its_way(tcp_server: _core.ControlServer) -> None:
    code = "plane.abort('CorruptPayload', 'y' * 300000); plane.close(); os._exit(3)"
    with closing(join(tcp_server.port, 0, 2)) as plane:
        process = spawn_rank(tcp_server.port, 1, 2, code)
        try:
            assert heard(plane, "aborted", 1)[4] == "y" * 300000
            assert process.wait(timeout=10) == 3
            assert len(plane.notices()) == 1
        finally:
            end(process)


def test_idle_job_burns_no_processor_time(tcp_world: World) -> None:
    waiting = tcp_world.gather("k", [0, 1], timeout=1.0)
    before = time.process_time()
    for call in waiting.values():
        assert isinstance(call.exception(), Timeout)
    assert time.process_time() - before < 0.3
