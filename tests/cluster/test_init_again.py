# SPDX-License-Identifier: Apache-2.0
"""shutdown() and init() again in the same processes, with as many ranks or fewer: no state of the first session is
left."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.fault_job import FaultJob, Session
from tests.cluster.invariants import check_all

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("codec", ["none", "onebit"])
def test_again_and_again(nodes: Any, tmp_path: Path, codec: str) -> None:
    topologies = ["ps", "ring", "allgather", "hierarchical", "ps", "ring"]
    sessions = [Session(range(4), topology, codec, steps=5) for topology in topologies]
    with FaultJob(tmp_path, sessions, nodes) as job:
        check_all(job, range(4), 90.0)
        for index in range(4):
            assert job.processes[index].returncode == 0
            assert sum(fact["event"] == "over" for fact in job.facts(index)) == len(topologies)


def test_survivors_meet_again_without_the_dead(nodes: Any, tmp_path: Path) -> None:
    first = Session(range(4), "ring", "onebit")
    # Process 1 of four dies. The other three are ranks 0 to 2 of the next sessions; two of them are left in the last
    # session.
    then = [Session([0, None, 1, 2], topology, steps=5) for topology in ("ring", "ps", "allgather")]
    last = Session([None, None, 1, 0], "ring", "onebit", steps=5)
    with FaultJob(tmp_path, [first, *then, last], nodes) as job:
        job.running()
        job.signal(1, signal.SIGKILL)
        check_all(job, {0, 2, 3}, 90.0)
        for index in (0, 2, 3):
            events = [fact["event"] for fact in job.facts(index)]
            assert events.count("error") == 1
            assert events.count("over") == (5 if index != 0 else 4)


def test_a_lone_rank_can_begin_and_end_often(tmp_path: Path) -> None:
    with FaultJob(tmp_path, [Session([0], steps=3)] * 10) as job:
        check_all(job, [0], 60.0)
        assert job.processes[0].returncode == 0
