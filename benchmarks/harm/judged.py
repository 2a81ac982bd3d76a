# SPDX-License-Identifier: Apache-2.0
"""Which trainings are good and bad, and what the rule of hipress.watching says of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.convergence.cells import Cell, Grid, best_rate
from benchmarks.convergence.methods import BASELINE, METHODS, codec_of, is_codec
from benchmarks.convergence.verdict import LEAST_SEEDS, baseline, verdict
from hipress.watching import Figures, TensorFigures
from hipress.watching.harm import harm

#: The rule counts if it speaks in this part of a training.
PART = 1 / 3
#: Kinds of optimizers by the suite's names.
_KINDS = {"adamw": "adam"}


@dataclass(frozen=True)
class Method:
    """A codec with a task and an optimizer, as the convergence suite has judged it."""

    task: str
    optimizer: str
    name: str
    learning_rate: float
    gap: float
    """Of the loss, as a part of what the baseline gains."""
    standing: str
    """"bad": the suite has proved a loss. "good": cleared, or the gap lies within its uncertainty. "small": a small
    loss, which is neither."""

    def cells(self, seeds: int) -> list[Cell]:
        """Its trainings."""
        return [Cell(self.task, self.optimizer, self.name, self.learning_rate, seed) for seed in range(seeds)]


def methods(rows: Sequence[dict[str, Any]], pairs: Sequence[tuple[str, str]]) -> Iterator[Method]:
    """The codecs that the suite has trained often enough. dgc is not among them: its averages have momentum, so they
    are not those of gradients."""
    grid = Grid(pairs)
    for (task, optimizer), name in itertools.product(pairs, METHODS):
        if not is_codec(name) or name.startswith("dgc"):
            continue
        rates = [best_rate(rows, task, optimizer, each, grid) for each in (BASELINE, name)]
        beside = None if rates[0] is None else baseline(rows, task, optimizer, rates[0])
        if beside is None or rates[1] is None:
            continue
        found = verdict(rows, task, optimizer, name, rates[1], beside)
        if found is None or found.n < LEAST_SEEDS or math.isnan(found.limit):
            continue
        uncertain = (found.limit - found.least) / 2
        is_good = found.is_cleared() or found.gap_share <= uncertain
        standing = "bad" if found.loses() else "good" if is_good else "small"
        yield Method(task, optimizer, name, rates[1], found.gap_share, standing)


def spoke_at(row: dict[str, Any]) -> int | None:
    """The step at which the rule says harm in a training; None: it never does."""
    kind = _KINDS.get(row["optimizer"], row["optimizer"])
    return next((step for step, *each in row["windows"] if harm(_figures(row, step, *each), kind)), None)


def _figures(row: dict[str, Any], step: int, error: float | None, fresh: float | None) -> Figures:
    """Of a model with one gradient."""
    known = TensorFigures("all", codec_of(row["method"], row["optimizer"]), 1, _error(error), 1.0, fresh or 0.0)
    return Figures(step, 20, 0, 0.0, 0.0, 0.0, {"all": known})


def _error(error: float | None) -> float:
    """None: the training has come to values that are not finite."""
    return math.inf if error is None else error


def worst_early(rows: Sequence[dict[str, Any]]) -> tuple[float, float]:
    """The largest error, and the least that is fresh, in the windows of the trainings' PART."""
    windows = [each for row in rows for each in row["windows"] if each[0] <= PART * row["steps"]]
    return max(_error(error) for _, error, _ in windows), min(fresh or 0.0 for _, _, fresh in windows)


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, int]:
    """How many good trainings there are, and of how many the rule says harm; of the bad ones, of how many it says so in
    time."""
    good = [row for row in rows if row["standing"] == "good"]
    bad = [row for row in rows if row["standing"] == "bad"]
    named = [row for row in bad if (step := spoke_at(row)) is not None and step <= PART * row["steps"]]
    return {
        "good": len(good),
        "false_alarms": sum(spoke_at(row) is not None for row in good),
        "bad": len(bad),
        "named_in_time": len(named),
    }
