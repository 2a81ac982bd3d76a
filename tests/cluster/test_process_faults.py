# SPDX-License-Identifier: Apache-2.0
"""Real processes that tests kill and stop: every other rank raises an error, names the rank, and has changed no
parameter."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster.training_job import TrainingJob
from tests.ranks import clean_environment
from tests.tiers import thorough

pytestmark = pytest.mark.slow


@contextmanager
def running(folder: Path, world_size: int, codec: str, **variables: str) -> Iterator[TrainingJob]:
    job = TrainingJob(folder, world_size, codec, **variables)
    try:
        for rank in range(world_size):
            job.fact(rank, "step", 90.0, number=5)
        yield job
    finally:
        job.end()


@pytest.mark.parametrize(("codec", "victim"), [("none", 0), thorough("onebit", 2)])
def test_a_killed_rank_is_named_by_all_others_within_ten_seconds(tmp_path: Path, codec: str, victim: int) -> None:
    with running(tmp_path, 3, codec) as job:
        killed = job.signal(victim, signal.SIGKILL)
        for rank in {0, 1, 2} - {victim}:
            error = job.fact(rank, "error", 15.0)
            assert error["time"] - killed < 10.0
            assert error["kind"] == "PeerLost"
            assert f"rank {victim}" in error["message"]
            assert error["unchanged"]
            again = job.fact(rank, "again", 5.0)
            assert again["kind"] == "PeerLost"
            assert again["unchanged"]
            assert job.fact(rank, "shutdown", 15.0)["seconds"] < 10.0
            assert job.processes[rank].wait(15.0) == 3


@pytest.mark.parametrize("victim", [thorough(0), 2])
def test_a_stopped_rank_is_named_with_the_tensor_after_the_deadline(tmp_path: Path, victim: int) -> None:
    with running(tmp_path, 3, "onebit", HIPRESS_TIMEOUT="5") as job:
        stopped = job.signal(victim, signal.SIGSTOP)
        for rank in {0, 1, 2} - {victim}:
            error = job.fact(rank, "error", 20.0)
            assert 4.0 < error["time"] - stopped < 10.0
            assert error["kind"] == "Timeout"
            assert f"rank {victim}" in error["message"]
            assert "weight'" in error["message"] or "bias'" in error["message"]
            assert error["unchanged"]
            assert job.processes[rank].wait(20.0) == 3


def test_a_rank_that_leaves_early_is_named(tmp_path: Path) -> None:
    # Ctrl-C ends the loop of rank 1 early, so rank 1 makes fewer steps than the other ranks.
    with running(tmp_path, 3, "none") as job:
        left = job.signal(1, signal.SIGINT)
        for rank in (0, 2):
            error = job.fact(rank, "error", 20.0)
            assert error["time"] - left < 10.0
            assert error["kind"] == "PeerLost"
            assert "rank 1" in error["message"]
            assert error["unchanged"]


_ONE_RANK_DIES = """
import os, signal, torch
import hipress.torch as hp
hp.init()
for step in range(100):
    if hp.rank() == 1 and step == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    hp.allreduce(torch.ones(500_000), name="conv.weight")
"""


def test_under_the_launcher_the_other_ranks_have_their_last_words() -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "hipress.cli", "run", "-np", "3", sys.executable, "-c", _ONE_RANK_DIES],
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert finished.returncode == 128 + signal.SIGKILL
    for rank in (0, 2):
        assert any(
            line.startswith(f"[{rank}]") and "PeerLost" in line and "rank 1" in line
            for line in finished.stderr.splitlines()
        ), finished.stderr
    assert "rank 1 was killed by SIGKILL" in finished.stderr
