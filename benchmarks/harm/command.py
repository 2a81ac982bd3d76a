# SPDX-License-Identifier: Apache-2.0
"""Trains cells of the convergence suite again, watched, and says which of them the rule of harm names.

    python benchmarks/harm --minutes 30          goes on where the results end
    python benchmarks/harm --report              what the results say

README.md describes the columns.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.convergence import results as suite
from benchmarks.convergence.cells import RANKS, SEEDS, key_of
from benchmarks.convergence.command import where
from benchmarks.convergence.job import Job
from benchmarks.harm.judged import methods, spoke_at, summary, worst_early
from benchmarks.harness.arguments import names_of
from benchmarks.harness.rank_jobs import RankFailed, exit_code, free_port, run_ranks
from benchmarks.harness.report import print_table

#: Tasks and optimizers of which the suite has judged most codecs.
PAIRS = (
    ("digits-cnn", "momentum"),
    ("digits-cnn", "sgd"),
    ("help-decoder", "adamw"),
    ("licences-decoder", "adamw"),
)
FILE = Path(__file__).parents[1] / "results" / "harm.json"
_RANK = Path(__file__).parents[1] / "convergence" / "rank.py"
#: What is kept of a training.
_KEPT = ("task", "optimizer", "method", "learning_rate", "seed", "loss", "steps", "windows", "ranks")


def arguments() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    pairs = [f"{task}/{optimizer}" for task, optimizer in PAIRS]
    parser.add_argument(
        "--pair", type=names_of("pair", pairs), default=pairs, help="TASK/OPTIMIZER, by commas (default: all)"
    )
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"trainings of each codec (default: {SEEDS})")
    parser.add_argument("--minutes", type=float, default=math.inf, help="start nothing after this time")
    parser.add_argument("--report", action="store_true", help="print what the results say, and run nothing")
    parser.add_argument("--json", type=Path, metavar="FILE", default=FILE, help="the file of results")
    parser.add_argument(
        "--suite", type=Path, metavar="FILE", default=suite.FILE, help="the results of convergence.py, which judge"
    )
    return parser


def run(given: argparse.Namespace) -> None:
    """Runs what has no result, until the time is over. Raises RankFailed."""
    pairs = [(task, optimizer) for task, _, optimizer in (pair.partition("/") for pair in given.pair)]
    judged = {
        cell.key: method for method in methods(suite.read(given.suite), pairs) for cell in method.cells(given.seeds)
    }
    done = {key_of(row) for row in suite.read(given.json)}
    cells = [cell for method in dict.fromkeys(judged.values()) for cell in method.cells(given.seeds)]
    cells = [cell for cell in cells if cell.key not in done]
    part, end = given.json.with_suffix(".part"), time.monotonic() + 60 * given.minutes
    part.unlink(missing_ok=True)
    try:
        if cells:
            job = Job(cells, min(end - time.monotonic(), 1e9), None, free_port(), str(part))
            run_ranks((sys.executable, str(_RANK), job.to_json()), None, world=RANKS)
    finally:
        columns = where()
        added = []
        for row in suite.read_lines(part):
            method = judged[key_of(row)]
            kept = {name: row[name] for name in _KEPT}
            added.append({**kept, "gap": method.gap, "standing": method.standing, **columns})
        if added:
            suite.write(given.json, [*suite.read(given.json), *added])
        part.unlink(missing_ok=True)


def report(rows: list[dict[str, Any]]) -> None:
    """Prints a line for each codec, and what the rule says of all."""
    table = []
    for key in dict.fromkeys((row["task"], row["optimizer"], row["method"]) for row in rows):
        trained = [row for row in rows if (row["task"], row["optimizer"], row["method"]) == key]
        error, fresh = worst_early(trained)
        steps = [spoke_at(row) for row in trained]
        table.append(
            {
                **dict(zip(("task", "optimizer", "method"), key, strict=True)),
                "gap": f"{100 * trained[0]['gap']:+.2f} %",
                "standing": trained[0]["standing"],
                "largest_error": f"{error:.2g}",
                "least_fresh": f"{fresh:.2f}",
                "named": f"{sum(step is not None for step in steps)} of {len(steps)}",
                "first_named_at": min((step for step in steps if step is not None), default="–"),
            }
        )
    if table:
        print_table(table)
    print(", ".join(f"{name} {count}" for name, count in summary(rows).items()))


def main() -> int:
    """Runs the trainings of the command line, and prints the report. Returns the exit code."""
    given = arguments().parse_args()
    try:
        if not given.report:
            run(given)
    except RankFailed as error:
        return exit_code("harm", error)
    except KeyboardInterrupt:
        return 130
    report(suite.read(given.json))
    return 0
