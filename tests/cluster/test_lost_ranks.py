# SPDX-License-Identifier: Apache-2.0
"""Ranks on emulated hosts that die, stop, leave or cannot be reached: which error each other rank raises, and when."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.fault_job import Fact, FaultJob, Session
from tests.cluster.invariants import check_all
from tests.tiers import thorough

pytestmark = pytest.mark.slow

JOBS = [("ps", "none"), ("ring", "onebit"), ("allgather", "none"), ("hierarchical", "onebit")]


def errors(job: FaultJob, ranks: set[int], patience: float) -> dict[int, Fact]:
    return {rank: job.fact(rank, "error", patience) for rank in ranks}


@pytest.mark.parametrize(("topology", "codec"), JOBS)
def test_a_killed_rank_is_named_at_once(nodes: Any, tmp_path: Path, topology: str, codec: str) -> None:
    # With topology "hierarchical" two ranks share a host.
    ranks, per_node = (4, 2) if topology == "hierarchical" else (3, 1)
    with FaultJob(tmp_path, Session(range(ranks), topology, codec), nodes, per_node) as job:
        job.running()
        killed = job.signal(1, signal.SIGKILL)
        others = set(range(ranks)) - {1}
        for error in errors(job, others, 10.0).values():
            assert error["kind"] == "PeerLost"
            assert "rank 1" in error["message"]
            assert error["time"] - killed < 3.0
        check_all(job, others, 15.0)


def test_a_killed_coordinator_is_a_lost_rank(nodes: Any, tmp_path: Path) -> None:
    # No rank waits for the link rounds that the killed coordinator was to plan.
    variables = {"HIPRESS_COORDINATOR": "rank0", "HIPRESS_BUNDLE_MESSAGE_BYTES": "1000"}
    with FaultJob(tmp_path, Session(range(4), variables=variables), nodes) as job:
        job.running()
        killed = job.signal(0, signal.SIGKILL)
        for error in errors(job, {1, 2, 3}, 10.0).values():
            assert error["kind"] == "PeerLost"
            assert "rank 0" in error["message"]
            assert error["time"] - killed < 3.0
        check_all(job, {1, 2, 3}, 15.0)


@pytest.mark.parametrize(("victim", "topology", "codec"), [(0, "ring", "none"), thorough(2, "allgather", "onebit")])
def test_a_stopped_rank_is_a_timeout(nodes: Any, tmp_path: Path, victim: int, topology: str, codec: str) -> None:
    # The rank's host answers, so the rank is not lost, however long it is stopped. The user's deadline ends the wait.
    session = Session(range(3), topology, codec, timeout=3.0, variables={"HIPRESS_HEARTBEAT_LIMIT": "1"})
    with FaultJob(tmp_path, session, nodes) as job:
        job.running()
        stopped = job.signal(victim, signal.SIGSTOP)
        others = {0, 1, 2} - {victim}
        for error in errors(job, others, 15.0).values():
            assert error["kind"] == "Timeout"
            assert f"rank {victim}" in error["message"]
            assert "weight'" in error["message"]
            assert 2.5 < error["time"] - stopped < 7.0
        check_all(job, others, 15.0)


@pytest.mark.parametrize(
    ("victim", "topology", "codec", "limit"),
    [(2, "ps", "onebit", None), (0, "ring", "none", "2"), (1, "allgather", "none", "2")],
)
def test_a_cut_link_is_a_lost_rank_within_ten_seconds(
    nodes: Any, tmp_path: Path, victim: int, topology: str, codec: str, limit: str | None
) -> None:
    variables = {} if limit is None else {"HIPRESS_HEARTBEAT_LIMIT": limit}
    with FaultJob(tmp_path, Session(range(4), topology, codec, variables=variables), nodes) as job:
        job.running()
        cut = time.monotonic()
        nodes.cut(victim)
        for rank, error in errors(job, {0, 1, 2, 3}, 20.0).items():
            assert error["kind"] == "PeerLost"
            assert error["time"] - cut < 10.0
            if rank != victim:
                assert f"rank {victim}" in error["message"]
        check_all(job, {0, 1, 2, 3}, 15.0)


def test_a_link_cut_while_nothing_is_sent_is_known_at_the_next_step(nodes: Any, tmp_path: Path) -> None:
    # A limit of one second would be too short for ranks that start on a busy machine.
    variables = {"HIPRESS_HEARTBEAT_LIMIT": "2"}
    with FaultJob(tmp_path, Session(range(3), pause=5.0, variables=variables), nodes) as job:
        job.running(steps=0)
        time.sleep(0.5)
        nodes.cut(2)
        for rank, error in errors(job, {0, 1}, 10.0).items():
            assert error["kind"] == "PeerLost", rank
            assert "rank 2" in error["message"]
            assert error["seconds"] < 1.0
        check_all(job, {0, 1, 2}, 15.0)


@pytest.mark.parametrize("topology", ["ps", thorough("ring")])
def test_a_rank_that_leaves_while_others_wait_is_named(nodes: Any, tmp_path: Path, topology: str) -> None:
    with FaultJob(tmp_path, Session(range(3), topology, own_steps={1: 20}), nodes) as job:
        left = job.fact(1, "step", 60.0, lambda fact: bool(fact["step"] == 19))["time"]
        for error in errors(job, {0, 2}, 15.0).values():
            assert error["kind"] == "PeerLost"
            assert "rank 1 has left" in error["message"]
            assert error["time"] - left < 6.0
        check_all(job, {0, 1, 2}, 15.0)


def test_a_cut_of_moments_is_no_loss(nodes: Any, tmp_path: Path) -> None:
    with FaultJob(tmp_path, Session(range(3), "ring"), nodes) as job:
        job.running()
        nodes.cut(1)
        time.sleep(2.0)
        nodes.restore(1)
        job.progress([0, 1, 2], 3, 20.0)
