# SPDX-License-Identifier: Apache-2.0
"""`hipress run --elastic`: ranks are lost, stopped and replaced, and the training goes on from the last commit."""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from tests.launch.conftest import Start, assert_gone, start
from tests.launch.elastic.job import PATIENCE, REFORMING, Job, check_results, wait_until
from tests.launch.elastic.test_discovery import SSH, program

__all__ = ["start"]  # a fixture

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

TRAINING = str(Path(__file__).with_name("training.py"))


def _job(start: Start, folder: Path, *options: str, **given: Any) -> Job:
    return Job(start, folder, *options, training=TRAINING, **given)


@pytest.mark.parametrize(("lost", "codec"), [(0, "onebit"), (2, "powersgd"), (1, "none")])
def test_the_others_go_on_from_the_last_commit(start: Start, tmp_path: Path, lost: int, codec: str) -> None:
    job = _job(start, tmp_path, "--elastic", "-np", "3", "--restarts", "0", codec=codec)
    job.at_step(17, 0, 1, 2)
    job.kill(lost)
    left = [number for number in range(3) if number != lost]
    assert job.in_world(2, *left) < REFORMING
    check_results(job, *left)
    for rank, number in enumerate(left):
        (first, _, _), (step, *place) = job.worlds(number)
        assert (first, place) == (0, [rank, 2])
        assert step >= 15
        assert step % 5 == 0
        assert job.results()[number][2] == f"[{lost}]"


def test_a_new_process_takes_the_place_of_the_lost_one_at_a_commit(start: Start, tmp_path: Path) -> None:
    job = _job(start, tmp_path, "--elastic", "-np", "2", steps=300)
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
    assert job.worlds(2)[0][0] % 5 == 0


def test_a_stopped_rank_is_lost_and_killed(start: Start, tmp_path: Path) -> None:
    job = _job(start, tmp_path, "--elastic", "-np", "3", "--restarts", "0")
    job.at_step(7, 0, 1, 2)
    job.kill(1, signal.SIGSTOP)
    assert job.in_world(2, 0, 2) < REFORMING
    check_results(job, 0, 2)
    assert_gone([job.pid(1)])


def test_a_second_loss_while_the_ranks_form_a_new_world(start: Start, tmp_path: Path) -> None:
    job = _job(start, tmp_path, "--elastic", "-np", "4", "--restarts", "0")
    job.at_step(7, 0, 1, 2, 3)
    job.kill(0)
    time.sleep(0.15)
    job.kill(1)
    check_results(job, 2, 3)


def test_too_few_ranks_wait_and_then_end_with_a_sentence(start: Start, tmp_path: Path) -> None:
    options = ("--elastic", "-np", "2", "--min-np", "2", "--restarts", "0", "--elastic-timeout", "5")
    job = _job(start, tmp_path, *options)
    job.at_step(7, 0, 1)
    job.kill(1)
    code, text = job.end()
    assert code != 0
    assert "1 rank is here, and the job needs 2 (--min-np): it waits for others, at most 5 s" in text
    assert "1 rank is here for 5 s, and the job needs 2 (--min-np)" in text


def test_an_error_of_the_program_ends_its_process_and_the_others_go_on(start: Start, tmp_path: Path) -> None:
    job = _job(start, tmp_path, "--elastic", "-np", "3", "--restarts", "0")
    job.at_step(7, 0, 1, 2)
    (tmp_path / "raise-1").touch()
    check_results(job, 0, 2)


def test_an_error_on_all_ranks_ends_the_job(start: Start, tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / f"raise-{number}").touch()
    job = _job(start, tmp_path, "--elastic", "-np", "2")
    code, text = job.end()
    assert code == 1
    assert "ValueError: the program's own error" in text
    assert "all ranks are lost" in text


def test_without_elastic_a_lost_rank_is_an_error_on_all(start: Start, tmp_path: Path) -> None:
    job = _job(start, tmp_path, "-np", "2")
    job.at_step(7, 0, 1)
    job.kill(1)
    code, text = job.end()
    assert code == 128 + signal.SIGKILL
    assert "ending the other ranks" in text
    assert job.results() == {}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--min-np", "3"), "none above the next"),
        (("--elastic", "--max-np", "1"), "none above the next"),
        (("--elastic", "--slots-per-host", "0"), "--slots-per-host 0"),
        (("--host-discovery-script", "/no/such/program"), "--host-discovery-script /no/such/program: cannot run"),
        (("--elastic", "--elastic-timeout", "0"), "--elastic-timeout 0"),
        (("--elastic", "--restarts", "-1"), "--restarts -1"),
        (("--elastic", "-H", "a:2"), "--elastic is for jobs on this machine"),
    ],
)
def test_wrong_options_are_refused(start: Start, options: tuple[str, ...], sentence: str) -> None:
    process = start("-np", "2", *options, "true")
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode != 0
    assert sentence in " ".join(err.decode().split())


def test_ranks_come_and_leave_with_the_hosts(start: Start, tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("localhost:1\n")
    script = program(tmp_path, f"cat {tmp_path}/hosts")
    options = ("-np", "1", "--min-np", "1", "--max-np", "2", "--host-discovery-script", script)
    job = _job(start, tmp_path, *options, steps=1200)
    job.at_step(2, 0)
    (tmp_path / "hosts").write_text("localhost:2\n")
    job.in_world(1, 1)
    job.in_world(2, 0)
    assert job.worlds(0)[-1][1:] == (0, 2)
    (tmp_path / "hosts").write_text("localhost:1\n")
    job.in_world(3, 0)
    assert job.worlds(0)[-1][1:] == (0, 1)
    assert_gone([job.pid(1)])
    check_results(job, 0)


def test_processes_on_other_hosts_start_through_ssh(start: Start, tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # it sends nothing
        except OSError:
            pytest.skip("this machine has only its loopback address")
        address = probe.getsockname()[0]
    program(tmp_path, SSH.replace("far", address), "ssh")
    script = program(tmp_path, f"printf 'localhost:1\\n{address}:1\\n'")
    path = f"{tmp_path}:{os.environ['PATH']}"
    job = _job(start, tmp_path, "-np", "2", "--host-discovery-script", script, path=path)
    check_results(job, 0, 1)
    assert job.worlds(0)[0][1:] == (0, 2)
