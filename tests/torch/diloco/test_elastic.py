# SPDX-License-Identifier: Apache-2.0
"""DiLoCo in `hipress run --elastic`: ranks are lost, late and new, and no rank repeats a step."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.launch.conftest import Start, start
from tests.launch.elastic.job import REFORMING, Job, check_results, wait_until

__all__ = ["start"]  # a fixture

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

TRAINING = str(Path(__file__).with_name("training.py"))
SYNC_EVERY = 5
STEPS = 150
#: Everything that an exchange may have: parts of the model, overlap, mixing.
STREAMING = {"fragments": 1, "overlap_steps": 2, "mix": 0.5}


def _job(start: Start, folder: Path, *options: str, steps: int = STEPS, codec: str = "onebit", **given: Any) -> Job:
    last = (str(SYNC_EVERY), json.dumps(given))
    return Job(start, folder, "--elastic", *options, training=TRAINING, codec=codec, steps=steps, last=last)


def _steps(job: Job, number: int) -> list[int]:
    return [int(words[1]) for words in job.lines(number, "step")]


def _sizes(job: Job, number: int) -> list[int]:
    return [int(words[2]) for words in job.lines(number, "step")]


def _during_pause(job: Job, number: int, until: Callable[[], bool], what: str) -> None:
    pause = job.folder / f"pause-{number}"
    pause.touch()
    wait_until(until, what)
    pause.unlink()


@pytest.mark.parametrize(
    ("lost", "codec", "options"),
    [
        (0, "onebit", {}),
        (1, "none", STREAMING),
        (0, "sparseloco", {}),
        pytest.param(2, "powersgd", {}, marks=pytest.mark.thorough),
        pytest.param(1, "terngrad", STREAMING, marks=pytest.mark.thorough),
    ],
)
def test_the_others_repeat_the_exchange_and_no_step(
    start: Start, tmp_path: Path, lost: int, codec: str, options: dict[str, Any]
) -> None:
    job = _job(start, tmp_path, "-np", "3", "--restarts", "0", codec=codec, **options)
    job.at_step(17, 0, 1, 2)
    job.kill(lost)
    begin = time.monotonic()
    left = [number for number in range(3) if number != lost]
    wait_until(lambda: all(2 in _sizes(job, each) for each in left), "a step of the ranks that are left")
    assert time.monotonic() - begin < REFORMING
    check_results(job, *left)
    for number in left:
        assert _steps(job, number) == list(range(1, STEPS + 1))
        assert job.results()[number][2].startswith(f"[{lost}]")


@pytest.mark.parametrize(
    ("codec", "options"),
    [
        ("int8", STREAMING),
        pytest.param("onebit", {}, marks=pytest.mark.thorough),
        pytest.param("sparseloco", {}, marks=pytest.mark.thorough),
    ],
)
def test_a_new_rank_comes_at_an_exchange_with_the_others_parameters(
    start: Start, tmp_path: Path, codec: str, options: dict[str, Any]
) -> None:
    job = _job(start, tmp_path, "-np", "2", codec=codec, steps=400, **options)
    job.at_step(7, 0, 1)
    job.kill(1)
    wait_until(lambda: 1 in _sizes(job, 0), "a step alone")
    # The one that is left does not end before the new one is there.
    _during_pause(job, 0, (tmp_path / "2.txt").exists, "a new process")
    check_results(job, 0, 2)
    assert _steps(job, 0) == list(range(1, 401))
    first = _steps(job, 2)[0]
    assert _steps(job, 2) == list(range(first, 401))
    assert first > 7
    assert _sizes(job, 2) == [2] * len(_sizes(job, 2))
    assert job.results()[2][2].split()[-1] == "0"  # the buffer is rank 0's


def test_a_stopped_rank_is_lost_while_the_others_wait_at_an_exchange(start: Start, tmp_path: Path) -> None:
    job = _job(start, tmp_path, "-np", "3", "--restarts", "0")
    job.at_step(7, 0, 1, 2)
    job.kill(1, signal.SIGSTOP)
    wait_until(lambda: all(2 in _sizes(job, each) for each in (0, 2)), "a step of the ranks that are left")
    check_results(job, 0, 2)


@pytest.mark.parametrize(("late", "codec"), [(0, "onebit"), pytest.param(2, "sparseloco", marks=pytest.mark.thorough)])
def test_a_late_rank_is_left_out_and_comes_back_with_what_it_has_learnt(
    start: Start, tmp_path: Path, late: int, codec: str
) -> None:
    job = _job(start, tmp_path, "-np", "3", "--restarts", "0", codec=codec, steps=200, quorum=[2, 0.1, 100])
    others = [number for number in range(3) if number != late]
    job.at_step(17, 0, 1, 2)
    _during_pause(job, late, lambda: _sizes(job, others[0]).count(2) > 12, "exchanges without the late rank")
    code, text = job.end()
    assert code == 0, text
    assert "is late: the others go on without it" in text
    results = job.results()
    assert sorted(results) == [0, 1, 2]
    assert len({digest for _, digest, _ in results.values()}) == 1
    assert all(lost.startswith("[]") for _, _, lost in results.values())
    for number in others:
        assert _steps(job, number) == list(range(1, 201))
        assert _sizes(job, number)[-1] == 3
    steps = _steps(job, late)
    assert steps == sorted(set(steps))
    assert len(steps) < 200 - 10


def test_a_rank_may_not_be_late_more_often_than_the_quorum_says(start: Start, tmp_path: Path) -> None:
    job = _job(start, tmp_path, "-np", "3", "--restarts", "0", steps=60, quorum=[2])
    job.at_step(17, 0, 1, 2)
    pause = tmp_path / "pause-1"
    pause.touch()
    wait_until(lambda: 2 in _sizes(job, 0), "an exchange without the late rank")
    time.sleep(2.0)
    assert _sizes(job, 0).count(2) <= SYNC_EVERY
    pause.unlink()
    check_results(job, 0, 1, 2)


@pytest.mark.thorough
def test_two_ranks_that_are_lost_one_after_the_other(start: Start, tmp_path: Path) -> None:
    job = _job(start, tmp_path, "-np", "4", "--restarts", "0")
    job.at_step(7, 0, 1, 2, 3)
    job.kill(0)
    time.sleep(0.15)
    job.kill(1)
    check_results(job, 2, 3)
    assert _steps(job, 2) == list(range(1, STEPS + 1))


@pytest.mark.thorough
def test_a_quorum_of_more_ranks_than_there_are_waits_for_all(start: Start, tmp_path: Path) -> None:
    job = _job(start, tmp_path, "-np", "2", quorum=[3])
    check_results(job, 0, 1)
    assert all(_steps(job, number) == list(range(1, STEPS + 1)) for number in (0, 1))


_BEGIN = """
import torch
import hipress.torch as hp

hp.init()

def diloco():
    model = torch.nn.Linear(3, 2)
    return hp.DiLoCo(model, torch.optim.SGD(model.parameters(), 0.1))

first = diloco()
try:
    SECOND
except hp.Unsupported as error:
    print("refused:", error)
first.detach()
"""
_SECOND = {"DiLoCo": "diloco()", "run": "hp.elastic.run(print)(hp.elastic.ObjectState(None, None))"}


@pytest.mark.parametrize("second", ["DiLoCo", "run"])
def test_two_that_would_form_worlds_are_refused(start: Start, tmp_path: Path, second: str) -> None:
    script = tmp_path / "two.py"
    script.write_text(_BEGIN.replace("SECOND", _SECOND[second]))
    process = start("--elastic", "-np", "2", "--restarts", "0", sys.executable, str(script))
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err.decode()
    assert out.decode().count("refused: ") == 2
    assert "elastic job has either hipress.elastic.run() or one DiLoCo()" in out.decode()
