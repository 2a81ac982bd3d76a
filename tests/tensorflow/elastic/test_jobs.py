# SPDX-License-Identifier: Apache-2.0
"""model.fit() under `hipress run --elastic`: ranks are lost and replaced, and graphs that were traced before go on."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.launch.conftest import Start, start
from tests.launch.elastic.job import REFORMING, Job, check_results, wait_until

__all__ = ["start"]  # a fixture

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

TRAINING = str(Path(__file__).with_name("training.py"))
WITH_A_TAPE = str(Path(__file__).with_name("tape_training.py"))


@pytest.mark.parametrize(("lost", "codec"), [(0, "onebit"), (1, "powersgd"), (2, "int8_shared")])
def test_the_others_go_on_from_the_last_commit(start: Start, tmp_path: Path, lost: int, codec: str) -> None:
    job = Job(start, tmp_path, "--elastic", "-np", "3", "--restarts", "0", codec=codec, training=TRAINING)
    job.at_step(17, 0, 1, 2)
    job.kill(lost)
    left = [number for number in range(3) if number != lost]
    assert job.in_world(2, *left) < REFORMING
    check_results(job, *left)
    for number in left:
        step, _, size = job.worlds(number)[1]
        assert step >= 15
        assert step % 5 == 0
        assert size == 2
        assert job.results()[number][2] == f"[{lost}]"


@pytest.mark.parametrize("training", [TRAINING, WITH_A_TAPE])
def test_a_new_process_takes_the_place_of_the_lost_one(start: Start, tmp_path: Path, training: str) -> None:
    job = Job(start, tmp_path, "--elastic", "-np", "2", steps=300, training=training)
    job.at_step(1, 0, 1)
    job.kill(1)
    job.in_world(2, 0)
    (tmp_path / "pause-0").touch()  # until the new process is there
    wait_until((tmp_path / "2.txt").exists, "the start of a new process")
    time.sleep(0.5)
    (tmp_path / "pause-0").unlink()
    check_results(job, 0, 2)
    assert job.worlds(2)[0][1:] == (1, 2)
    assert job.worlds(0)[-1][1:] == (0, 2)
