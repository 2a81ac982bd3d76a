# SPDX-License-Identifier: Apache-2.0
"""A running elastic job, for tests: its processes report what they do, as tests/torch/elastic/training.py says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.launch.conftest import Start, assert_gone

#: Seconds for a whole job; imports of the framework take most of them.
PATIENCE = 120.0
#: Seconds in which the others must have gone on.
REFORMING = 10.0


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Returns once `condition` holds; fails the test with the text `what` if it does not in the time of a whole job."""
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            pytest.fail(f"waited {PATIENCE:g} s for: {what}")
        time.sleep(0.02)


class Job:
    """A running job, and what its processes have reported."""

    def __init__(
        self,
        start: Start,
        folder: Path,
        *options: str,
        training: str,
        codec: str = "onebit",
        steps: int = 60,
        path: str = "",
        last: Sequence[str] = ("5",),
    ) -> None:
        """`last`: the last arguments of the training."""
        self.folder = folder
        self.process: subprocess.Popen[bytes] = start(
            *options,
            *(sys.executable, training, str(folder), codec, str(steps), *last),
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
