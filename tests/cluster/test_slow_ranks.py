# SPDX-License-Identifier: Apache-2.0
"""Ranks that are late, slow or badly connected but alive: the other ranks wait until the deadline and never report a
loss."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.fault_job import FaultJob, Session
from tests.cluster.invariants import check_all
from tests.cluster.nodes import lossy

pytestmark = pytest.mark.slow

#: A rank sends a beat every quarter of a second, and is lost after a second of silence. The defaults are less strict.
STRICT = {"HIPRESS_HEARTBEAT_LIMIT": "1"}


def test_a_rank_that_is_stopped_for_a_while_goes_on(nodes: Any, tmp_path: Path) -> None:
    with FaultJob(tmp_path, Session(range(3), "ring", "onebit", variables=STRICT), nodes) as job:
        job.running()
        for victim in (0, 2):
            job.signal(victim, signal.SIGSTOP)
            time.sleep(1.8)
            job.signal(victim, signal.SIGCONT)
            job.progress([0, 1, 2], 3, 10.0)
        # The test stops all ranks, as a scheduler suspends a job. No rank may conclude after waking that another rank
        # was silent.
        for rank in range(3):
            job.signal(rank, signal.SIGSTOP)
        time.sleep(1.8)
        for rank in range(3):
            job.signal(rank, signal.SIGCONT)
        job.progress([0, 1, 2], 3, 10.0)


def test_a_busy_machine_loses_nobody(nodes: Any, tmp_path: Path) -> None:
    spin = [sys.executable, "-c", "import time\nend = time.monotonic() + 20\nwhile time.monotonic() < end: pass"]
    with FaultJob(tmp_path, Session(range(3), variables=STRICT), nodes) as job, ExitStack() as spinning:
        job.running()
        for _ in range(4 * (os.cpu_count() or 1)):
            process = spinning.enter_context(subprocess.Popen(spin))
            spinning.callback(process.kill)
        time.sleep(3.0)
        job.progress([0, 1, 2], 3, 20.0)


@pytest.mark.parametrize(("topology", "codec"), [("ps", "none"), ("ring", "onebit")])
def test_a_link_at_one_percent_is_slow_but_right(nodes: Any, tmp_path: Path, topology: str, codec: str) -> None:
    with FaultJob(tmp_path, Session(range(4), topology, codec, sizes=(100_000, 300)), nodes) as job:
        job.running()
        nodes.set_rate("10mbit", node=1)
        job.progress(range(4), 3, 30.0)
        nodes.set_rate("1gbit", node=1)
        job.progress(range(4), 3, 10.0)
        assert [job.errors(rank) for rank in range(4)] == [[]] * 4


@pytest.mark.thorough
def test_a_link_that_is_full_for_longer_than_the_limit_is_not_cut(nodes: Any, tmp_path: Path) -> None:
    """At 1 Mbit/s the megabyte that waits for the link takes 8 s. Beats wait behind it, or the network drops them."""
    sizes, limit = (1_500_000, 1_500_000), {"HIPRESS_HEARTBEAT_LIMIT": "6"}
    with FaultJob(tmp_path, Session(range(4), "ps", sizes=sizes, timeout=120.0, variables=limit), nodes) as job:
        job.running(steps=1)
        nodes.set_rate("1mbit")
        time.sleep(15.0)
        assert [job.errors(rank) for rank in range(4)] == [[]] * 4
        nodes.set_rate("1gbit")
        job.progress(range(4), 2, 60.0)
        # A link that is cut after that is found within the limit.
        cut = time.monotonic()
        nodes.cut(2)
        for rank in range(4):
            error = job.fact(rank, "error", 15.0)
            assert error["kind"] == "PeerLost"
            assert error["time"] - cut < 12.0


def test_a_link_that_is_too_slow_for_the_deadline_is_a_timeout(nodes: Any, tmp_path: Path) -> None:
    session = Session(range(3), "ps", sizes=(4_000_000,), timeout=3.0)
    with FaultJob(tmp_path, session, nodes) as job:
        job.running(steps=1)
        nodes.set_rate("10mbit", node=2)
        slowed = time.monotonic()
        for rank in range(3):
            error = job.fact(rank, "error", 20.0)
            assert error["kind"] == "Timeout"
            assert error["time"] - slowed < 8.0
        check_all(job, range(3), 30.0)


@pytest.mark.parametrize(("topology", "codec"), [("allgather", "onebit"), ("ps", "none")])
def test_lost_packets_are_sent_again(nodes: Any, tmp_path: Path, topology: str, codec: str) -> None:
    variables = {"HIPRESS_HEARTBEAT_LIMIT": "2"}
    with FaultJob(tmp_path, Session(range(3), topology, codec, variables=variables), nodes) as job:
        job.running()
        with lossy(nodes, 1, 0.05):
            job.progress(range(3), 5, 30.0)
        with lossy(nodes, 1, 1.0):
            for rank in (0, 2):
                error = job.fact(rank, "error", 15.0)
                assert error["kind"] == "PeerLost"
                assert "rank 1" in error["message"]
            job.fact(1, "error", 15.0)
        check_all(job, range(3), 15.0)


@pytest.mark.parametrize("delay", [2.0, pytest.param(30.0, id="30s")])
def test_a_rank_that_starts_late_is_waited_for(tmp_path: Path, delay: float) -> None:
    if delay == 30.0 and "HIPRESS_TEST_SLOW" not in os.environ:
        pytest.skip("takes more than 30 s; set HIPRESS_TEST_SLOW=1 to run it")
    with FaultJob(tmp_path, Session(range(3), steps=5, delays={1: delay}, timeout=delay + 20.0)) as job:
        check_all(job, range(3), delay + 30.0)
        assert all(job.processes[rank].returncode == 0 for rank in range(3))


def test_a_rank_that_starts_too_late_is_named_and_turned_away(tmp_path: Path) -> None:
    session = Session(range(3), steps=5, delays={2: 4.5}, timeout=2.0)
    with FaultJob(tmp_path, session) as job:
        for rank in (0, 1):
            error = job.fact(rank, "error", 20.0)
            assert error["kind"] == "Timeout"
            assert "rank 2" in error["message"]
            assert error["seconds"] < 8.0
        late = job.fact(2, "error", 30.0)
        assert late["kind"] in ("Timeout", "PeerLost", "Refused")
        assert late["seconds"] < 8.0
        check_all(job, range(3), 15.0)
