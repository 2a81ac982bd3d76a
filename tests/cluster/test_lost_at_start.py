# SPDX-License-Identifier: Apache-2.0
"""Ranks that are cut off or die while the ranks are still meeting."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.fault_job import FaultJob, Session
from tests.cluster.invariants import check_all
from tests.cluster.nodes import walled

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("fault", "delay"), [("cut", 0.0), ("cut", 0.1), ("kill", 0.1)])
def test_a_rank_lost_in_init_is_an_error_in_time(nodes: Any, tmp_path: Path, fault: str, delay: float) -> None:
    with FaultJob(tmp_path, Session(range(2), timeout=2.0, variables={"HIPRESS_HEARTBEAT_LIMIT": "1"}), nodes) as job:
        job.fact(1, "init", 30.0)
        time.sleep(delay)
        start = time.monotonic()
        if fault == "cut":
            nodes.cut(1)
        else:
            job.signal(1, signal.SIGKILL)
        survivors = [0, 1] if fault == "cut" else [0]
        for rank in survivors:
            error = job.fact(rank, "error", 20.0)
            assert error["kind"] in ("Timeout", "PeerLost", "TransportError")
            assert f"rank {1 - rank}" in error["message"]
            assert error["time"] - start < 7.0
        check_all(job, survivors, 15.0)


def test_a_firewall_between_ranks_is_an_error_in_time(nodes: Any, tmp_path: Path) -> None:
    # All ranks meet at rank 0, but they cannot connect with each other. UCX connects in a call that blocks.
    session = Session(range(3), timeout=4.0, delays=dict.fromkeys(range(3), 1.0))
    with FaultJob(tmp_path, session, nodes) as job, walled(nodes, 2, int(job.places[0].split(":")[1])):
        for rank in range(3):
            job.fact(rank, "init", 30.0)
        start = time.monotonic()
        for rank in range(3):
            error = job.fact(rank, "error", 30.0)
            assert error["kind"] == "TransportError"
            assert f"rank {rank}: UCX cannot connect to rank {0 if rank == 2 else 2}" in error["message"]
            assert "firewall" in error["message"]
            assert error["time"] - start < 9.0
        check_all(job, range(3), 15.0)
