# SPDX-License-Identifier: Apache-2.0
"""Measures trainings that go on from a checkpoint with another number of ranks.

    python benchmarks/checkpoints.py --json FILE

The character model of benchmarks/optimizers trains with AdamW. Each step has 16 sequences over all ranks, and the
sequences do not depend on the number of ranks. The first training has 4 ranks to its end. The second one leaves it
after a third of the steps: 2 new processes load the checkpoint; after two thirds 8 processes load theirs (`--ranks`).
With the first seed a third training does the same without the residuals of the checkpoints: it shows whether the losses
would tell that residuals are missing. README.md describes the columns.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.checkpoints.job import SEQUENCES, Job, Leg, Trained
from benchmarks.harness.rank_jobs import RankFailed, exit_code, run_job
from benchmarks.harness.report import Row, print_table, write_json
from benchmarks.optimizers.own import OWN

_RANK = Path(__file__).with_name("rank.py")
SEEDS = (0, 1, 2)
#: The numbers of ranks of an interrupted training, one leg after the other. The uninterrupted one has the first.
Ranks = tuple[int, ...]
RANKS: Ranks = (4, 2, 8)
WHOLE, KEPT, DROPPED = "uninterrupted", "residuals kept", "residuals dropped"
_SYSTEM = f"a codec with error feedback, or an optimizer of hipress.torch.optim ({', '.join(OWN)})"


def _integers(text: str) -> tuple[int, ...]:
    return tuple(int(each) for each in text.split(","))


def arguments() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--system", default="onebit", help=f"{_SYSTEM} (default: onebit)")
    parser.add_argument("--steps", type=int, default=600, help="steps of each training (default: 600)")
    parser.add_argument("--seed", type=_integers, default=SEEDS, help="seeds by commas; the losses' spread takes two")
    parser.add_argument("--ranks", type=_integers, default=RANKS, help="numbers of ranks by commas (default: 4,2,8)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    return parser


def legs(
    system: str, seed: int, steps: int, folder: Path, *, dropped: bool, ranks: Ranks = RANKS
) -> dict[str, list[tuple[int, Leg]]]:
    """The trainings of a seed as ranks and legs; `dropped`: also the one without residuals. The interrupted trainings
    leave the uninterrupted one at its checkpoint, so their first leg is the same."""
    cuts = [steps * index // len(ranks) for index in range(1, len(ranks))]
    common = str(folder / "first.pt")
    trainings = {WHOLE: [(ranks[0], Leg(system, seed, steps, 0, steps, save=common, save_at=cuts[0]))]}
    for kept, name in ((True, KEPT), (False, DROPPED))[: 2 if dropped else 1]:
        load, made = common, []
        for index, (count, first) in enumerate(zip(ranks[1:], cuts, strict=True)):
            last = cuts[index + 1] if index + 1 < len(cuts) else steps
            save = str(folder / f"{name}-{last}.pt") if last < steps else ""
            made.append((count, Leg(system, seed, steps, first, last, load, kept, save, last)))
            load = save
        trainings[name] = made
    return trainings


def run(given: argparse.Namespace) -> list[Row]:
    """Runs all trainings. Raises RankFailed."""
    trained: dict[int, dict[str, list[Trained]]] = {}
    for seed in given.seed:
        with tempfile.TemporaryDirectory() as folder:
            dropped = seed == given.seed[0]
            todo = legs(given.system, seed, given.steps, Path(folder), dropped=dropped, ranks=given.ranks)
            trained[seed] = {name: [_run(*leg) for leg in each] for name, each in todo.items()}
    return rows_of(given.system, given.steps, trained, given.ranks)


def _run(ranks: int, leg: Leg) -> Trained:
    begun = time.monotonic()
    answer = run_job(
        lambda port, result: (sys.executable, str(_RANK), Job(leg, port, result).to_json()), None, world=ranks
    )
    trained = Trained(**json.loads(answer))
    print(
        f"{leg.system}, seed {leg.seed}, {ranks} ranks, steps {leg.first} to {leg.last}: {trained} "
        f"({time.monotonic() - begun:.0f} s)",
        file=sys.stderr,
        flush=True,
    )
    return trained


def rows_of(system: str, steps: int, trained: dict[int, dict[str, list[Trained]]], ranks: Ranks = RANKS) -> list[Row]:
    """One row for each training of a system."""
    last = str(steps)
    whole = {seed: each[WHOLE][-1].losses[last] for seed, each in trained.items()}
    spread = statistics.stdev(whole.values()) if len(whole) > 1 else None
    cuts = [str(steps * index // len(ranks)) for index in range(1, len(ranks))]
    rows: list[Row] = []
    for seed, trainings in trained.items():
        for name, jobs in trainings.items():
            ended = jobs[-1].losses[last]
            above = None if name == WHOLE else ended - whole[seed]
            loaded = [each for each in jobs if each.load_error is not None]
            rows.append(
                {
                    "system": system,
                    "training": name,
                    "ranks": str(ranks[0]) if name == WHOLE else ", ".join(map(str, ranks)),
                    "seed": seed,
                    "loss_nats": ended,
                    "above_whole_nats": above,
                    "spread_nats": spread,
                    "spreads_ratio": None if above is None or spread is None else abs(above) / spread,
                    "residual_norms": _by_step(cuts, [each.saved_norm for each in loaded]),
                    "loaded_norms": _by_step(cuts, [each.loaded_norm for each in loaded]),
                    "load_errors": _by_step(cuts, [each.load_error for each in loaded]),
                    "losses_nats": {step: value for each in jobs for step, value in each.losses.items()},
                    "parameters": jobs[0].parameters,
                    "steps": steps,
                    "sequences": SEQUENCES,
                    "python": platform.python_version(),
                }
            )
    return rows


def _by_step(cuts: Sequence[str], values: Sequence[float | None]) -> dict[str, float] | None:
    """The figures of the resumes, by the number of steps before each. None without resumes."""
    if not values:
        return None
    return {cut: value for cut, value in zip(cuts, values, strict=True) if value is not None}


def main() -> int:
    """Runs the trainings of the command line. Returns the exit code."""
    parser = arguments()
    given = parser.parse_args()
    if len(given.ranks) < 2 or any(count < 2 or SEQUENCES % count != 0 for count in given.ranks):
        parser.error(
            f"--ranks: a training has two legs or more; a rank alone keeps no residual, and {SEQUENCES} sequences of a "
            "step are divided among the ranks without rest"
        )
    if given.steps < 2 * len(given.ranks):
        parser.error(f"--steps {given.steps}: each of {len(given.ranks)} legs takes at least two steps")
    try:
        rows = run(given)
    except RankFailed as error:
        return exit_code("checkpoints.py", error)
    except KeyboardInterrupt:
        return 130
    mappings = ("residual_norms", "loaded_norms", "load_errors", "losses_nats")
    print_table(rows, leave_out=mappings)
    if given.json is not None:
        write_json(given.json, rows)
    return 0
