# SPDX-License-Identifier: Apache-2.0
"""The convergence suite: trains small models with every codec and optimizer, several times, beside bf16.

    python benchmarks/convergence.py --minutes 60          goes on where the results end, for an hour
    python benchmarks/convergence.py --pair help-decoder/adamw --method int8,onebit
    python benchmarks/convergence.py --list                what is still to be run
    python benchmarks/convergence.py --codec my_module:MyCodec --json mine.json

A training that has a result is not run again. README.md describes the columns; verdict.py has the rule by which a
method is cleared, which was written before the first run.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import math
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.convergence import results
from benchmarks.convergence.cells import BASELINE_SEEDS, FACTORS, PAIRS, RANKS, SEEDS, Grid, best_rate, missing
from benchmarks.convergence.job import JUDGED, Job
from benchmarks.convergence.methods import BASELINE, METHODS
from benchmarks.convergence.tasks import MNIST
from benchmarks.convergence.verdict import ECONOMY, SAFE, baseline, verdict
from benchmarks.harness.arguments import names_of
from benchmarks.harness.rank_jobs import RankFailed, exit_code, free_port, run_ranks
from benchmarks.harness.report import parse_names
from benchmarks.training.precision_lab import variables
from hipress.codecs.named import codec_named
from hipress.errors import HipressError

_RANK = Path(__file__).with_name("rank.py")
_ROOT = Path(__file__).parents[2]
#: The greatest gap with which a codec is cleared, by the level for which it then is.
MARGINS = {"safe": SAFE, "economy": ECONOMY}
#: Seconds between two looks at the file of results.
_LOOK = 1.0


def arguments() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    pairs = [f"{task}/{optimizer}" for task, optimizer in PAIRS]
    parser.add_argument(
        "--pair", type=names_of("pair", pairs), default=pairs, help="TASK/OPTIMIZER, by commas (default: all)"
    )
    parser.add_argument("--method", type=parse_names, default=list(METHODS), help="by commas (default: all)")
    parser.add_argument(
        "--codec",
        action="append",
        default=[],
        metavar="CODEC",
        help="a codec of your own, module:Class or a .cll file, in place of --method; its verdict is printed, and its "
        "results go to another file (--json)",
    )
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"trainings of each method (default: {SEEDS})")
    parser.add_argument(
        "--baseline-seeds", type=int, default=BASELINE_SEEDS, help=f"of bf16 (default: {BASELINE_SEEDS})"
    )
    parser.add_argument("--no-sweep", action="store_true", help="take the tasks' learning rates, without a sweep")
    parser.add_argument(
        "--steps", type=int, help="of each training (default: the task's); such results go to another file (--json)"
    )
    parser.add_argument("--minutes", type=float, default=math.inf, help="start nothing after this time")
    parser.add_argument("--list", action="store_true", help="print what can run now, and run nothing")
    parser.add_argument("--json", type=Path, metavar="FILE", default=results.FILE, help="the file of results")
    return parser


def grid_of(given: argparse.Namespace) -> Grid:
    """The part of the suite that the command line asks for. Raises ValueError for an unknown method, and HipressError
    for an unknown codec."""
    unknown = [name for name in given.method if name not in METHODS]
    if unknown:
        raise ValueError(f"no method '{unknown[0]}'; there are {', '.join(METHODS)}")
    pairs = [(task, optimizer) for task, _, optimizer in (pair.partition("/") for pair in given.pair)]
    factors = (1.0,) if given.no_sweep else FACTORS
    for own in given.codec:
        codec_named(own)
    return Grid(pairs, given.codec or given.method, given.seeds, given.baseline_seeds, factors)


def where() -> dict[str, Any]:
    """Columns that say where and with what a row was made."""
    commit = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=_ROOT, capture_output=True, text=True)
    return {
        "commit": commit.stdout.strip() or None,
        "machine": f"{platform.machine()}, {_processor()}",
        "python": platform.python_version(),
        "torch": version("torch"),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def run(grid: Grid, file: Path, minutes: float, steps: int | None = None) -> None:
    """Runs what has no result, until the time is over. Raises RankFailed."""
    end = time.monotonic() + 60 * minutes
    part = file.with_suffix(".part")
    columns = where()
    _take_over(file, part, columns)
    with Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()) as progress:
        # A sweep that has ended tells which trainings come next.
        while (cells := missing(results.read(file), grid)) and time.monotonic() < end:
            job = Job(cells, min(end - time.monotonic(), 1e9), steps, free_port(), str(part))
            bar = progress.add_task("trainings", total=len(cells))
            ended = threading.Event()
            show = functools.partial(progress.update, bar)
            watch = threading.Thread(target=_watch, args=(part, ended, show))
            watch.start()
            try:
                environment = variables("mnist-5k") if any(cell.task == MNIST for cell in cells) else None
                run_ranks((sys.executable, str(_RANK), job.to_json()), None, world=RANKS, env=environment)
            finally:
                ended.set()
                watch.join()
                _take_over(file, part, columns)


def own_verdicts(rows: Sequence[dict[str, Any]], grid: Grid) -> Iterator[str]:
    """A sentence for each codec, task and optimizer of which there are trainings."""
    for (task, optimizer), codec in itertools.product(grid.pairs, grid.methods):
        rates = [best_rate(rows, task, optimizer, method, grid) for method in (BASELINE, codec)]
        beside = None if rates[0] is None else baseline(rows, task, optimizer, rates[0])
        if beside is None or rates[1] is None:
            continue
        found = verdict(rows, task, optimizer, codec, rates[1], beside)
        if found is not None:
            cleared = next((name for name, margin in MARGINS.items() if found.is_cleared(margin)), "not proved")
            standing = "loses" if found.loses() else cleared
            yield (
                f"{codec}, {task}, {optimizer}: loss {found.mean:.3f}, {BASELINE} {beside.mean:.3f}, gap "
                f"{100 * found.gap_share:+.2f} %, at most {100 * found.limit:+.2f} % ({found.n} trainings): {standing}"
            )


def _watch(part: Path, ended: threading.Event, show: Callable[..., None]) -> None:
    while not ended.wait(_LOOK):
        show(completed=len(results.read_lines(part)))


def _take_over(file: Path, part: Path, columns: dict[str, Any]) -> None:
    """Puts what ranks have written into the file of results, also of a run that was killed."""
    if part.exists():
        results.write(file, [*results.read(file), *({**row, **columns} for row in results.read_lines(part))])
        part.unlink()


def main() -> int:
    """Runs the trainings of the command line. Returns the exit code."""
    parser = arguments()
    given = parser.parse_args()
    try:
        grid = grid_of(given)
    except (ValueError, HipressError) as error:
        parser.error(str(error))
    if given.codec and given.json == results.FILE:
        parser.error("--codec: give another file of results (--json)")
    if given.steps is not None and (given.steps < JUDGED or given.json == results.FILE):
        parser.error(f"--steps: give at least {JUDGED}, and another file of results (--json)")
    if given.list:
        for cell in missing(results.read(given.json), grid):
            print(*cell.key, sep="\t")
        return 0
    try:
        run(grid, given.json, given.minutes, given.steps)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        print(f"convergence.py: {error}", file=sys.stderr)
        return 1
    except RankFailed as error:
        return exit_code("convergence.py", error)
    except KeyboardInterrupt:
        return 130
    for line in own_verdicts(results.read(given.json), grid) if given.codec else ():
        print(line)
    return 0
