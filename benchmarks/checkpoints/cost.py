# SPDX-License-Identifier: Apache-2.0
"""Measures what taking the codec states for a checkpoint costs, compared with a copy of the same bytes.

    python benchmarks/checkpoint_cost.py --json FILE
    python benchmarks/checkpoint_cost.py --model resnet50 --codec onebit

Two ranks of this machine train with random gradients of a model's shapes for two steps. Then rank 0 takes its states in
turn with copies of their tensors (`tensor.clone()`). README.md describes the columns.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path

from benchmarks.checkpoints.cost_job import COPY, HOOK, OPTIMIZER, CostJob, Times
from benchmarks.harness.arguments import names_of
from benchmarks.harness.rank_jobs import RankFailed, exit_code, run_job
from benchmarks.harness.report import Row, parse_names, print_table, spread, write_json
from benchmarks.models import MODELS

_RANK = Path(__file__).with_name("cost_rank.py")
RANKS = 2


def arguments() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--model",
        type=names_of("model", list(MODELS)),
        default=["resnet50", "bert-base"],
        help="by commas (default: resnet50,bert-base)",
    )
    parser.add_argument("--codec", type=parse_names, default=["onebit", "dgc"], help="by commas (default: onebit,dgc)")
    parser.add_argument("--repeats", type=int, default=15, help="timed turns (default: 15)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    return parser


def run(given: argparse.Namespace) -> list[Row]:
    """Measures all models, codecs and ways. Raises RankFailed."""
    rows = []
    for model in given.model:
        for codec in given.codec:
            for way in (OPTIMIZER, HOOK):
                rows += _run(model, codec, way, given.repeats)
    return rows


def _run(model: str, codec: str, way: str, repeats: int) -> list[Row]:
    def command(port: int, result: str) -> tuple[str, ...]:
        return (sys.executable, str(_RANK), CostJob(model, codec, way, repeats, port, result).to_json())

    answer = json.loads(run_job(command, None, world=RANKS))
    times = {name: Times(**each) for name, each in answer["times"].items()}
    return rows_of({"model": model, "codec": codec, "way": way}, answer["bytes"], times)


def rows_of(setting: Row, size: int, times: dict[str, Times]) -> list[Row]:
    """A row for each kind of states. A ratio is the median of the turns' ratios."""
    copy = times[COPY]
    return [
        {
            **setting,
            "states": name,
            "size_bytes": size,
            "cpu_copy_ratio": _ratio(one.cpu_seconds, copy.cpu_seconds),
            "time_copy_ratio": _ratio(one.seconds, copy.seconds),
            **spread("cpu", one.cpu_seconds),
            **spread("time", one.seconds),
            **spread("copy_cpu", copy.cpu_seconds),
            **spread("copy", copy.seconds),
            "ranks": RANKS,
            "repeats": len(one.seconds),
        }
        for name, one in times.items()
        if name != COPY
    ]


def _ratio(times: list[float], of_copy: list[float]) -> float:
    return statistics.median(one / copy for one, copy in zip(times, of_copy, strict=True))


def main() -> int:
    """Measures what the command line asks for. Returns the exit code."""
    parser = arguments()
    given = parser.parse_args()
    if given.repeats < 1:
        parser.error(f"--repeats {given.repeats}: at least one turn is timed")
    try:
        rows = run(given)
    except RankFailed as error:
        return exit_code("checkpoint_cost.py", error)
    except KeyboardInterrupt:
        return 130
    print_table(rows)
    if given.json is not None:
        write_json(given.json, rows)
    return 0
