# SPDX-License-Identifier: Apache-2.0
"""The cells of the suite: which trainings there are, and which of them are still to be run, the most telling first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any

from benchmarks.convergence.methods import BASELINE, METHODS, first_of, method_named, suits
from benchmarks.convergence.tasks import TASKS

RANKS = 4
#: The learning rates of a sweep, as multiples of the task's.
FACTORS = (1.0, 3.0, 1 / 3)
#: Seeds of each method, and of the baseline, whose spread is the measure for all differences.
SEEDS, BASELINE_SEEDS = 3, 10
#: Tasks with optimizers, the most telling first.
PAIRS = (
    ("help-decoder", "adamw"),
    ("digits-cnn", "momentum"),
    ("licences-decoder", "adamw"),
    ("help-lstm", "momentum"),
    ("digits-cnn", "sgd"),
    ("help-lstm", "adamw"),
    ("mnist-cnn", "momentum"),
    ("digits-cnn", "adamw"),
    ("help-decoder", "momentum"),
    ("mnist-cnn", "sgd"),
    ("help-decoder", "sgd"),
    ("mnist-cnn", "adamw"),
    ("licences-decoder", "momentum"),
    ("licences-decoder", "sgd"),
    ("help-lstm", "sgd"),
)


@dataclass(frozen=True)
class Cell:
    """One training, by all ranks together."""

    task: str
    optimizer: str
    method: str
    learning_rate: float
    seed: int

    @property
    def key(self) -> tuple[Any, ...]:
        """The same as of a row of results."""
        return astuple(self)


#: The columns of a result that name its cell.
KEY = tuple(each.name for each in fields(Cell))


@dataclass(frozen=True)
class Grid:
    """The part of the suite that somebody asks for."""

    pairs: Sequence[tuple[str, str]] = PAIRS
    methods: Sequence[str] = tuple(METHODS)
    seeds: int = SEEDS
    baseline_seeds: int = BASELINE_SEEDS
    factors: Sequence[float] = FACTORS


def key_of(row: dict[str, Any]) -> tuple[Any, ...]:
    """The key of a result's cell."""
    return tuple(row[name] for name in KEY)


def rate(task: str, optimizer: str, factor: float) -> float:
    """A learning rate of a sweep, with three digits."""
    return float(f"{TASKS[task].rates[optimizer] * factor:.3g}")


def best_rate(rows: Sequence[dict[str, Any]], task: str, optimizer: str, method: str, grid: Grid) -> float | None:
    """The learning rate of a method: the one with which the first method of its class ends best with seed 0. None: the
    sweep is not done."""
    first = first_of(method_named(method).sweep)
    known = {
        row["learning_rate"]: row["loss"]
        for row in rows
        if key_of(row) == (task, optimizer, first, row["learning_rate"], 0)
    }
    rates = [rate(task, optimizer, factor) for factor in grid.factors]
    if not all(each in known for each in rates):
        return None
    # A training that ended in NaN has no loss.
    return min(rates, key=lambda each: float("inf") if known[each] is None else known[each])


def missing(rows: Sequence[dict[str, Any]], grid: Grid) -> list[Cell]:
    """The cells that can run now and have no result: first the sweeps, then the seeds with the best learning rate."""
    done = {key_of(row) for row in rows}
    return [cell for cell in dict.fromkeys(_cells(rows, grid)) if cell.key not in done]


def _cells(rows: Sequence[dict[str, Any]], grid: Grid) -> Iterator[Cell]:
    for task, optimizer in grid.pairs:
        methods = [method for method in (BASELINE, *grid.methods) if suits(method, optimizer)]
        for method in methods:
            first = first_of(method_named(method).sweep)
            yield from (Cell(task, optimizer, first, rate(task, optimizer, factor), 0) for factor in grid.factors)
        for method in methods:
            best = best_rate(rows, task, optimizer, method, grid)
            if best is not None:
                seeds = grid.baseline_seeds if method == BASELINE else grid.seeds
                yield from (Cell(task, optimizer, method, best, seed) for seed in range(seeds))
