# SPDX-License-Identifier: Apache-2.0
"""Measures the loss of trainings with DiLoCo in which a replica is lost and replaced, or is late.

    python benchmarks/members --seeds 3 --json FILE

All replicas are processes of one elastic job on this machine. Each disturbed training is compared with the undisturbed
one of its seed, at the same number of tokens. README.md describes the columns.
"""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.harness.report import Row, print_table, write_json
from benchmarks.members.replica import Job

_REPLICA = Path(__file__).with_name("replica.py")
#: Deadline of a training, in seconds.
_TIMEOUT = 900.0
STEADY, LOST, LATE = "steady", "one lost, one new", "one late"
#: For how many exchanges of the others a late replica is held.
_LATE_EXCHANGES = 3


class Failed(Exception):
    """A training has not ended well."""


class Training:
    """A running elastic job, and what its replicas have reported."""

    def __init__(self, job: Job, replicas: int, restarts: int) -> None:
        self.job, self.folder = job, Path(job.folder)
        options = ["--elastic", "-np", str(replicas), "--min-np", "1", "--restarts", str(restarts)]
        command = [sys.executable, "-m", "hipress.cli", "run", *options, sys.executable, str(_REPLICA), job.to_json()]
        self.output = (self.folder / "output").open("w+")
        self.process = subprocess.Popen(
            command, env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=self.output, stderr=subprocess.STDOUT
        )

    def lines(self, number: int, kind: str) -> list[list[str]]:
        """The words after `kind` of the process' lines."""
        file = self.folder / f"{number}.txt"
        lines = file.read_text().split("\n")[:-1] if file.exists() else []
        return [words[1:] for words in map(str.split, lines) if words[0] == kind]

    def steps(self, number: int) -> list[int]:
        """The steps that the process has taken."""
        return [int(step) for (step,) in self.lines(number, "step")]

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Raises Failed if the job ends before the condition holds."""
        end = time.monotonic() + _TIMEOUT
        while not condition():
            if self.process.poll() is not None or time.monotonic() > end:
                raise Failed(f"the job has ended too early:\n{self._said()}")
            time.sleep(0.02)

    def end(self) -> None:
        """Waits for a good end. Raises Failed."""
        try:
            code = self.process.wait(_TIMEOUT)
        except subprocess.TimeoutExpired:
            code = -1
        if code:
            raise Failed(f"exit code {code}:\n{self._said()}")

    def close(self) -> None:
        """Ends the job, if it still runs."""
        self.process.terminate()
        self.process.wait()
        self.output.close()

    def _said(self) -> str:
        self.output.seek(0)
        return self.output.read()


def arguments() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for name, default, what in (
        ("replicas", 4, "of the model"),
        ("seeds", 3, "trainings of each kind"),
        ("steps", 1600, "inner steps of a training"),
        ("sync-every", 20, "H, steps between two exchanges"),
    ):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"{what} (default: {default})")
    parser.add_argument("--codec", default="int8", help="of the pseudo-gradients (default: int8)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    return parser


def _disturb(kind: str, training: Training, replicas: int) -> None:
    third, last = training.job.steps // 3, replicas - 1
    training.wait_until(lambda: len(training.steps(last)) >= third)
    if kind == LOST:
        os.kill(int(training.lines(last, "pid")[0][0]), signal.SIGKILL)
    elif kind == LATE:
        pause = training.folder / f"pause-{last}"
        pause.touch()
        begun = training.steps(0)[-1]
        training.wait_until(lambda: training.steps(0)[-1] >= begun + _LATE_EXCHANGES * training.job.sync_every)
        pause.unlink()


def _tokens(training: Training, processes: int) -> dict[int, int]:
    """How many steps of replicas are part of the outer parameters after each step, as a multiple of `sync_every`.

    The steps that a lost replica has taken since its last exchange are part of none.
    """
    every = training.job.sync_every
    counted: dict[int, int] = {}
    for number in range(processes):
        steps = training.steps(number)
        whole = steps[-1] // every * every if steps else 0
        for step in steps:
            if step <= whole:
                at = -(-step // every) * every
                counted[at] = counted.get(at, 0) + 1
    total, found = 0, {}
    for step in sorted(counted):
        total += counted[step]
        found[step] = total
    return found


def _at(tokens: int, curve: list[tuple[int, float]]) -> float:
    """The loss of a curve at a number of tokens, between two of its points."""
    for (before, first), (after, second) in itertools.pairwise(curve):
        if before <= tokens <= after:
            return first + (second - first) * (tokens - before) / (after - before)
    raise Failed(f"the undisturbed training has no loss at {tokens} steps")


def _trained(kind: str, seed: int, given: argparse.Namespace) -> tuple[list[tuple[int, float]], dict[str, int]]:
    """The losses by the number of steps of all replicas, and the counts of a row."""
    with tempfile.TemporaryDirectory() as folder:
        quorum = given.replicas - 1 if kind == LATE else 0
        job = Job(folder, given.steps, given.sync_every, given.codec, seed, quorum)
        training = Training(job, given.replicas, restarts=1 if kind == LOST else 0)
        try:
            if kind != STEADY:
                _disturb(kind, training, given.replicas)
            training.end()
        finally:
            training.close()
        processes = given.replicas + (kind == LOST)
        tokens = _tokens(training, processes)
        losses = {int(step): float(value) for step, value in training.lines(0, "loss")}
        steps = [training.steps(number) for number in range(processes)]
        counts = {
            "steps": sum(map(len, steps)),
            "steps_lost": sum(map(len, steps)) - max(tokens.values()),
            "steps_repeated": sum(len(each) - len(set(each)) for each in steps),
            "steps_of_the_new_one": len(steps[-1]) if kind == LOST else 0,
        }
        return [(tokens[step], losses[step]) for step in sorted(tokens) if step in losses], counts


def run(given: argparse.Namespace) -> list[Row]:
    """A row for each kind of training. Raises Failed."""
    steady: list[list[tuple[int, float]]] = []
    rows: list[Row] = []
    for kind in (STEADY, LOST, LATE):
        ends, differences, counted = [], [], []
        for seed in range(given.seeds):
            curve, counts = _trained(kind, seed, given)
            if kind == STEADY:
                steady.append(curve)
            tokens, value = curve[-1]
            ends.append(value)
            differences.append(value - _at(tokens, steady[seed]))
            counted.append(counts)
            print(f"{kind}, seed {seed}: {value:.4f} nats after {tokens} steps", file=sys.stderr, flush=True)
        rows.append(
            {
                "training": kind,
                "replicas": given.replicas,
                "seeds": given.seeds,
                "codec": given.codec,
                "loss_nats": statistics.mean(ends),
                "loss_stdev_nats": statistics.stdev(ends) if given.seeds > 1 else None,
                "behind_steady_nats": statistics.mean(differences),
                "behind_steady_max_nats": max(differences),
                **{name: statistics.mean(each[name] for each in counted) for name in counted[0]},
            }
        )
    return rows


def main() -> int:
    """Measures, prints the table and writes the rows. Returns the exit code."""
    parser = arguments()
    given = parser.parse_args()
    if given.replicas < 2 or min(given.seeds, given.sync_every) < 1 or given.steps % given.sync_every:
        parser.error("--replicas must be at least 2, --seeds at least 1, --steps a multiple of --sync-every")
    try:
        rows = run(given)
    except Failed as error:
        print(f"members: {error}", file=sys.stderr)
        return 1
    print_table(rows)
    if given.json is not None:
        write_json(given.json, rows)
    return 0
