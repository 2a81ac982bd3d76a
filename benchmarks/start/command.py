# SPDX-License-Identifier: Apache-2.0
"""Measures how long ranks of one machine need until they have met and agreed on a list of tensors.

    python benchmarks/start --ranks 16,64,200 --tensors 400 --json FILE

The ranks import no framework. README.md describes the columns.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

from benchmarks.harness.link_bytes import link_bytes
from benchmarks.harness.rank_jobs import RankFailed, exit_code, run_job
from benchmarks.harness.report import Row, print_table, write_json

_RANK = Path(__file__).with_name("rank.py")
#: Deadline of waits (seconds), generous because the ranks share few cores.
_TIMEOUT = 300.0
_COLUMNS = ("met_s", "agreed_s", "rank0_cpu_s", "rank0_mib", "loopback_bytes")


def arguments() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--ranks",
        type=lambda text: [int(each) for each in text.split(",")],
        default=[16, 64],
        help="numbers of ranks, by commas (default: 16,64)",
    )
    parser.add_argument("--tensors", type=int, default=400, help="in the list (default: 400)")
    parser.add_argument("--repeats", type=int, default=5, help="starts of each number of ranks (default: 5)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    return parser


def start(ranks: int, tensors: int) -> dict[str, float]:
    """The columns of one start. Raises RankFailed."""
    before = link_bytes("lo")

    def command(_port: int, result: str) -> tuple[str, ...]:
        job = {"tensors": tensors, "begun": time.time(), "result": result, "timeout": _TIMEOUT}
        return (sys.executable, str(_RANK), json.dumps(job))

    found: dict[str, float] = json.loads(run_job(command, None, world=ranks))
    return {**found, "loopback_bytes": link_bytes("lo")[0] - before[0]}


def run(given: argparse.Namespace) -> list[Row]:
    """A row for each number of ranks: medians. Raises RankFailed."""
    rows: list[Row] = []
    for ranks in given.ranks:
        starts = [start(ranks, given.tensors) for _ in range(given.repeats)]
        medians = {column: statistics.median(each[column] for each in starts) for column in _COLUMNS}
        agreed = [each["agreed_s"] for each in starts]
        rows.append(
            {
                "ranks": ranks,
                "tensors": given.tensors,
                **medians,
                "agreed_min_s": min(agreed),
                "agreed_max_s": max(agreed),
                "repeats": given.repeats,
            }
        )
    return rows


def main() -> int:
    """Measures, prints the table and writes the rows. Returns the exit code."""
    parser = arguments()
    given = parser.parse_args()
    if min([given.repeats, given.tensors, *given.ranks]) < 1:
        parser.error("--ranks, --tensors and --repeats must be at least 1")
    try:
        rows = run(given)
    except RankFailed as error:
        return exit_code("start", error)
    print_table(rows)
    if given.json is not None:
        write_json(given.json, rows)
    return 0
