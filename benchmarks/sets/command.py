# SPDX-License-Identifier: Apache-2.0
"""Measures the steps of two process sets in one job beside those of two jobs.

    python benchmarks/sets --codec none,onebit --json FILE

All ranks are processes of this machine. README.md describes the columns.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.harness.report import Row, print_table, write_json

_RANK = Path(__file__).with_name("rank.py")
#: Deadline of one turn, in seconds.
_TIMEOUT = 300.0


class Failed(Exception):
    """A job has not ended well."""


def arguments() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--codec", type=lambda text: text.split(","), default=["none", "onebit"], help="(default: none,onebit)"
    )
    for name, default, what in (
        ("set", 2, "ranks of a set, and of each of the two jobs"),
        ("tensors", 60, "in the list"),
        ("elements", 100_000, "of each tensor, a multiple of 100"),
        ("steps", 40, "of each turn"),
        ("repeats", 7, "turns"),
    ):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"{what} (default: {default})")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    return parser


def turn(names: list[str], ranks: int, codec: str, given: argparse.Namespace) -> float:
    """The mean over the ranks of their median steps, in jobs with these names that run together. Raises Failed."""
    with tempfile.TemporaryDirectory() as text:
        folder, jobs = Path(text), []
        for name in names:
            numbers = {key: getattr(given, key) for key in ("set", "tensors", "elements", "steps")}
            job = json.dumps({"folder": text, "name": name, "codec": codec, **numbers})
            command = [sys.executable, "-m", "hipress.cli", "run", "-np", str(ranks), sys.executable, str(_RANK), job]
            jobs.append(subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}))
        try:
            total = ranks * len(names)
            _wait_for(jobs, lambda: len(list(folder.glob("ready-*"))) == total)
            (folder / "go").touch()
            _wait_for(jobs, lambda: len(list(folder.glob("*.json"))) == total)
            (folder / "over").touch()
            if any(each.wait(_TIMEOUT) for each in jobs):
                raise Failed("a job has failed; its output is above")
        finally:
            for each in jobs:
                each.terminate()
                each.wait()
        return statistics.mean(json.loads(file.read_text()) for file in folder.glob("*.json"))


def _wait_for(jobs: list[subprocess.Popen[bytes]], condition: Callable[[], bool]) -> None:
    end = time.monotonic() + _TIMEOUT
    while not condition():
        if any(each.poll() is not None for each in jobs) or time.monotonic() > end:
            raise Failed("a job has ended too early, or takes too long; its output is above")
        time.sleep(0.02)


def run(given: argparse.Namespace) -> list[Row]:
    """A row for each codec. Raises Failed."""
    rows: list[Row] = []
    for codec in given.codec:
        sets: list[float] = []
        jobs: list[float] = []
        for number in range(given.repeats):
            kinds = [(sets, ["sets"], 2 * given.set), (jobs, ["first", "second"], given.set)]
            for found, names, ranks in kinds if number % 2 == 0 else reversed(kinds):
                found.append(turn(names, ranks, codec, given))
        ratios = [one / two for one, two in zip(sets, jobs, strict=True)]
        rows.append(
            {
                "codec": codec,
                "ranks": 2 * given.set,
                "tensors": given.tensors,
                "elements": given.elements,
                "sets_s": statistics.median(sets),
                "jobs_s": statistics.median(jobs),
                "sets_to_jobs_ratio": statistics.median(ratios),
                "sets_to_jobs_min_ratio": min(ratios),
                "sets_to_jobs_max_ratio": max(ratios),
                "repeats": given.repeats,
            }
        )
    return rows


def main() -> int:
    """Measures, prints the table and writes the rows. Returns the exit code."""
    parser = arguments()
    given = parser.parse_args()
    if min(given.set, given.tensors, given.elements, given.steps, given.repeats) < 1:
        parser.error("all numbers must be at least 1")
    try:
        rows = run(given)
    except Failed as error:
        print(f"sets: {error}", file=sys.stderr)
        return 1
    print_table(rows)
    if given.json is not None:
        write_json(given.json, rows)
    return 0
