# SPDX-License-Identifier: Apache-2.0
"""`hipress run --elastic`: ranks are lost, stopped and replaced, and the training goes on from the last commit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.launch.conftest import Start, assert_gone, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

TRAINING = str(Path(__file__).with_name("training.py"))
#: Seconds for a whole job; imports of torch take most of them.
PATIENCE = 120.0
#: Seconds in which the others must have gone on.
REFORMING = 10.0


class Job:
    """A running job, and what its processes have reported."""

    def __init__(
        self, start: Start, folder: Path, *options: str, codec: str = "onebit", steps: int = 60, path: str = ""
    ) -> None:
        self.folder = folder
        self.process: subprocess.Popen[bytes] = start(
            *options,
            *(sys.executable, TRAINING, str(folder), codec, str(steps), "5"),
            env={"OMP_NUM_THREADS": "1", "PATH": path or os.environ["PATH"]},
        )

    def lines(self, number: int, kind: str) -> list[list[str]]:
        file = self.folder / f"{number}.txt"
        lines = file.read_text().split("\n")[:-1] if file.exists() else []
        return [words for words in map(str.split, lines) if words[0] == kind]

    def worlds(self, number: int) -> list[tuple[int, ...]]:
        """The step, rank and size with which the process has begun in each world."""
        return [tuple(map(int, words[1:4])) for words in self.lines(number, "begins")]

    def pid(self, number: int) -> int:
        return int(self.lines(number, "begins")[0][4])

    def at_step(self, step: int, *numbers: int) -> None:
        def all_there() -> bool:
            return all(any(int(words[1]) >= step for words in self.lines(each, "step")) for each in numbers)

        wait_until(lambda: all_there() or self.process.poll() is not None, f"step {step} of the processes {numbers}")

    def in_world(self, world: int, *numbers: int) -> float:
        """Waits until the processes have begun in so many worlds. Returns the seconds that it took."""
        begin = time.monotonic()

        def all_there() -> bool:
            return all(len(self.worlds(each)) >= world for each in numbers)

        wait_until(lambda: all_there() or self.process.poll() is not None, f"world {world} of the processes {numbers}")
        return time.monotonic() - begin

    def kill(self, number: int, with_signal: signal.Signals = signal.SIGKILL) -> None:
        os.kill(self.pid(number), with_signal)

    def end(self) -> tuple[int, str]:
        out, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, (out + err).decode()

    def results(self) -> dict[int, tuple[float, str, str]]:
        """Loss, digest of the parameters, and lost processes, by the process that has ended well."""
        found = {}
        for file in self.folder.glob("*.txt"):
            for words in self.lines(int(file.stem), "ends"):
                found[int(file.stem)] = (float(words[1]), words[2], " ".join(words[3:]))
        return found


def check_results(job: Job, *numbers: int) -> None:
    """The processes have ended well, with the same parameters, and have learnt."""
    code, text = job.end()
    results = job.results()
    assert (code, sorted(results)) == (0, sorted(numbers)), text
    assert len({digest for _, digest, _ in results.values()}) == 1
    assert max(loss for loss, _, _ in results.values()) < 0.5, results  # it begins at 10
    assert_gone([job.pid(number) for number in numbers])


@pytest.mark.parametrize(("lost", "codec"), [(0, "onebit"), (2, "powersgd"), (1, "none")])
def test_the_others_go_on_from_the_last_commit(start: Start, tmp_path: Path, lost: int, codec: str) -> None:
    job = Job(start, tmp_path, "--elastic", "-np", "3", "--restarts", "0", codec=codec)
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
    job = Job(start, tmp_path, "--elastic", "-np", "2", steps=300)
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
    job = Job(start, tmp_path, "--elastic", "-np", "3", "--restarts", "0")
    job.at_step(7, 0, 1, 2)
    job.kill(1, signal.SIGSTOP)
    assert job.in_world(2, 0, 2) < REFORMING
    check_results(job, 0, 2)
    assert_gone([job.pid(1)])


def test_a_second_loss_while_the_ranks_form_a_new_world(start: Start, tmp_path: Path) -> None:
    job = Job(start, tmp_path, "--elastic", "-np", "4", "--restarts", "0")
    job.at_step(7, 0, 1, 2, 3)
    job.kill(0)
    time.sleep(0.15)
    job.kill(1)
    check_results(job, 2, 3)


def test_too_few_ranks_wait_and_then_end_with_a_sentence(start: Start, tmp_path: Path) -> None:
    options = ("--elastic", "-np", "2", "--min-np", "2", "--restarts", "0", "--elastic-timeout", "5")
    job = Job(start, tmp_path, *options)
    job.at_step(7, 0, 1)
    job.kill(1)
    code, text = job.end()
    assert code != 0
    assert "1 rank is here, and the job needs 2 (--min-np): it waits for others, at most 5 s" in text
    assert "1 rank is here for 5 s, and the job needs 2 (--min-np)" in text


def test_an_error_of_the_program_ends_its_process_and_the_others_go_on(start: Start, tmp_path: Path) -> None:
    job = Job(start, tmp_path, "--elastic", "-np", "3", "--restarts", "0")
    job.at_step(7, 0, 1, 2)
    (tmp_path / "raise-1").touch()
    check_results(job, 0, 2)


def test_an_error_on_all_ranks_ends_the_job(start: Start, tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / f"raise-{number}").touch()
    job = Job(start, tmp_path, "--elastic", "-np", "2")
    code, text = job.end()
    assert code == 1
    assert "ValueError: the program's own error" in text
    assert "all ranks are lost" in text


def test_without_elastic_a_lost_rank_is_an_error_on_all(start: Start, tmp_path: Path) -> None:
    job = Job(start, tmp_path, "-np", "2")
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
