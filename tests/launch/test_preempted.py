# SPDX-License-Identifier: Apache-2.0
"""A rank that is asked to end (SIGTERM) while it waits for other ranks ends in time, and the others learn why."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from tests.launch.conftest import clean_environment
from tests.ranks import free_port

pytestmark = pytest.mark.slow

#: Seconds within which a rank ends: far less than the deadlines of its calls.
_IN_TIME = 10.0
_PROGRAM = """
import signal, sys, threading
import hipress
from hipress import runtime
from hipress.lifetime import Start

def preempted(*_):
    {handler}

def connected(start, *given, noted=Start.connected):
    noted(start, *given)
    print("connected", flush=True)

Start.connected = connected

signal.signal(signal.SIGTERM, preempted)
print("begins", flush=True)
try:
    {body}
except hipress.HipressError as error:
    print(type(error).__name__, error, flush=True)
    {after}
"""
_SHUTS_DOWN = "runtime.shutdown()"
_LEAVES = "runtime.shutdown(); sys.exit(7)"

Rank = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def rank() -> Iterator[Rank]:
    port = free_port()
    processes: list[subprocess.Popen[str]] = []

    def start(
        number: int, size: int, *, handler: str = _LEAVES, body: str = "runtime.init()", after: str = "pass"
    ) -> subprocess.Popen[str]:
        place = {"HIPRESS_RANK": str(number), "HIPRESS_SIZE": str(size), "HIPRESS_JOB_TOKEN": "preempted"}
        place |= {"HIPRESS_LOCAL_RANK": str(number), "HIPRESS_LOCAL_SIZE": str(size)}
        place["HIPRESS_RENDEZVOUS"] = f"127.0.0.1:{port}"
        process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM.format(handler=handler, body=body, after=after)],
            env=clean_environment() | place | {"PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        processes.append(process)
        _say(process, "begins")
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def _preempt(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Asks the process to end. Returns its exit code and the rest of its output."""
    start = time.monotonic()
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=30)
    assert time.monotonic() - start < _IN_TIME
    return process.returncode, output


def _say(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == f"{line}\n"


@pytest.mark.parametrize("preempted", [0, 1])
def test_a_handler_that_shuts_down_ends_a_rank_that_waits_for_a_late_rank(rank: Rank, preempted: int) -> None:
    ranks = [rank(number, 3) for number in (0, 1)]
    for each in ranks:
        _say(each, "connected")
    code, output = _preempt(ranks[preempted])
    assert (code, output) == (7, "")
    told, _ = ranks[1 - preempted].communicate(timeout=_IN_TIME)
    assert told.startswith("PeerLost ")
    assert f"rank {preempted} called shutdown() while it waited in init()" in told


def test_a_rank_that_waits_for_rank_0_ends(rank: Rank) -> None:
    alone = rank(1, 2)
    time.sleep(0.3)
    assert _preempt(alone) == (7, "")


def test_init_ends_with_not_initialized_if_the_handler_returns(rank: Rank) -> None:
    alone = rank(0, 2, handler=_SHUTS_DOWN)
    _say(alone, "connected")
    code, output = _preempt(alone)
    assert code == 0
    assert output.startswith("NotInitialized shutdown() was called while init() waited for the other ranks")


def test_a_rank_may_start_again_after_its_init_was_ended(rank: Rank) -> None:
    again = "import os; os.environ.update(HIPRESS_SIZE='1', HIPRESS_LOCAL_SIZE='1'); runtime.init(); "
    again += "print('size', runtime.size(), flush=True)"
    alone = rank(0, 2, handler=_SHUTS_DOWN, after=again)
    _say(alone, "connected")
    code, output = _preempt(alone)
    assert (code, output.splitlines()[1:]) == (0, ["connected", "size 1"])


def test_a_thread_may_end_the_init_of_the_main_thread(rank: Rank) -> None:
    alone = rank(0, 2, handler="threading.Thread(target=runtime.shutdown).start()")
    _say(alone, "connected")
    code, output = _preempt(alone)
    assert code == 0
    assert output.startswith("NotInitialized shutdown() was called")


def test_an_exception_in_the_handler_is_the_reason_for_the_other_ranks(rank: Rank) -> None:
    ranks = [rank(0, 3), rank(1, 3, handler="raise ValueError('out of quota')")]
    for each in ranks:
        _say(each, "connected")
    assert _preempt(ranks[1])[0] == 1
    told, _ = ranks[0].communicate(timeout=_IN_TIME)
    assert told.startswith("PeerLost ")
    assert "rank 1 ended with ValueError: out of quota while it waited in init()" in told


def test_a_handler_that_shuts_down_while_another_shutdown_lingers(rank: Rank) -> None:
    body = "runtime.init(); runtime.LINGER = 2.0; print('in', flush=True); runtime.shutdown()"
    stays = "runtime.init(); import time; time.sleep(60)"
    ranks = [rank(0, 2, body=body), rank(1, 2, body=stays)]
    _say(ranks[0], "connected")
    _say(ranks[0], "in")
    assert _preempt(ranks[0])[0] == 7


def test_a_rank_exits_after_ctrl_c_in_a_collective(rank: Rank) -> None:
    waits = "runtime.current().engine.allgather('never', b'', 60.0)"
    body = f"""
    runtime.init(); runtime.LINGER = 0.5; print("in", flush=True)
    try: {waits}
    except KeyboardInterrupt: sys.exit(9)
    """.strip()
    stays = "runtime.init(); import time; time.sleep(60)"
    ranks = [rank(0, 2, handler="raise KeyboardInterrupt", body=body), rank(1, 2, body=stays)]
    _say(ranks[0], "connected")
    _say(ranks[0], "in")
    time.sleep(0.3)
    assert _preempt(ranks[0]) == (9, "")
