# SPDX-License-Identifier: Apache-2.0
"""plan="auto" follows links whose rate changes during training."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed")

from tests.cluster.fault_job import next_port

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).with_name("planned_training.py")
RANKS = 2
#: The number of steps within which a plan must follow a change of a link.
BAR = 50


def _facts(folder: Path, rank: int) -> list[dict[str, Any]]:
    diary = folder / f"diary{rank}"
    return [json.loads(line) for line in diary.read_text().splitlines()] if diary.exists() else []


def _wait_for(folder: Path, processes: list[Any], holds: Any, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not holds(_facts(folder, 0)):
        assert all(process.poll() is None for process in processes), (folder / "log0").read_text()
        assert time.monotonic() < end, (folder / "log0").read_text() + str(_facts(folder, 0)[-3:])
        time.sleep(0.2)


@pytest.mark.thorough
def test_a_slower_link_gets_another_plan_on_all_ranks_and_loses_no_residual(nodes: Any, tmp_path: Path) -> None:
    """On an unshaped link no codec pays; at 50 Mbit/s a step of 7.6 MB without a codec takes more than a second."""
    nodes.set_rate("none")
    stop = tmp_path / "stop"
    port = 29700 + next_port()
    processes = []
    for rank in range(RANKS):
        environment = {
            "HIPRESS_SIZE": str(RANKS),
            "HIPRESS_RANK": str(rank),
            "HIPRESS_LOCAL_SIZE": "1",
            "HIPRESS_LOCAL_RANK": "0",
            "HIPRESS_RENDEZVOUS": f"10.77.0.1:{port}",
            "HIPRESS_JOB_TOKEN": "plans",
            "OMP_NUM_THREADS": "1",
        }
        command = [sys.executable, str(PROGRAM), str(tmp_path / f"diary{rank}"), str(stop)]
        log = (tmp_path / f"log{rank}").open("wb")
        processes.append(nodes.popen(rank, command, env=environment, stdout=log, stderr=subprocess.STDOUT))
    try:
        _wait_for(tmp_path, processes, lambda facts: len(facts) > 30, 120)
        before = _facts(tmp_path, 0)[-1]
        nodes.set_rate("50mbit")
        changed = before["step"]
        _wait_for(tmp_path, processes, lambda facts: facts[-1]["step"] > changed + BAR + 12, 200)
        stop.touch()
        assert [process.wait(60) for process in processes] == [0] * RANKS
    finally:
        for process in processes:
            process.kill()
            process.wait()
    by_rank = [_facts(tmp_path, rank) for rank in range(RANKS)]
    assert all(facts == by_rank[0] for facts in by_rank), "replicas, or the steps in which plans change, differ"
    facts = by_rank[0]
    followed = next(fact["step"] for fact in facts if fact["step"] > changed and fact["plan"] != before["plan"])
    assert followed - changed <= BAR
    at_the_end = [fact for fact in facts if fact["plan"]][-1]
    assert at_the_end["compressed"] >= 2, "the large gradients"
    assert facts[-2]["lacking"] > 0.1, "onebit keeps residuals"
    assert facts[-1]["lacking"] < 1e-3
