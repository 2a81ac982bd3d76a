# SPDX-License-Identifier: Apache-2.0
"""The suite sweeps learning rates first, takes the best of a class, and runs no cell twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.convergence import results
from benchmarks.convergence.cells import PAIRS, Cell, Grid, best_rate, missing, rate
from benchmarks.convergence.methods import METHODS, codec_of, first_of, has_momentum, suits
from benchmarks.convergence.tasks import TASKS

PAIR = ("digits-cnn", "momentum")
GRID = Grid([PAIR], ("bf16", "int8", "onebit", "tbq"), seeds=2, baseline_seeds=3)


def _row(cell: Cell, loss: float | None) -> dict[str, Any]:
    names = ("task", "optimizer", "method", "learning_rate", "seed")
    return {**dict(zip(names, cell.key, strict=True)), "loss": loss}


def _of_sweep(method: str, losses: dict[float, float | None]) -> list[dict[str, Any]]:
    return [_row(Cell(*PAIR, method, rate(*PAIR, factor), 0), loss) for factor, loss in losses.items()]


def test_sweeps_come_first() -> None:
    cells = missing([], GRID)
    assert {(cell.method, cell.seed) for cell in cells} == {("bf16", 0), ("onebit", 0)}
    assert len(cells) == 6


def test_a_class_takes_the_best_rate_of_its_first_method() -> None:
    rows = _of_sweep("bf16", {1.0: 0.3, 3.0: 0.2, 1 / 3: 0.4}) + _of_sweep("onebit", {1.0: 0.5, 3.0: None, 1 / 3: 0.6})
    assert best_rate(rows, *PAIR, "int8", GRID) == rate(*PAIR, 3.0)
    assert best_rate(rows, *PAIR, "tbq", GRID) == rate(*PAIR, 1.0)
    left = missing(rows, GRID)
    assert [(cell.method, cell.seed) for cell in left] == [
        *(("bf16", seed) for seed in (1, 2)),
        *(("int8", seed) for seed in (0, 1)),
        ("onebit", 1),
        *(("tbq", seed) for seed in (0, 1)),
    ]
    assert missing(rows + [_row(cell, 0.1) for cell in left], GRID) == []


def test_a_sweep_that_is_not_done_holds_up_its_class_only() -> None:
    rows = _of_sweep("bf16", {1.0: 0.3, 3.0: 0.2, 1 / 3: 0.4}) + _of_sweep("onebit", {1.0: 0.5})
    assert best_rate(rows, *PAIR, "onebit", GRID) is None
    assert {cell.method for cell in missing(rows, GRID)} == {"bf16", "int8", "onebit"}


def test_every_pair_and_method_can_be_run() -> None:
    assert sorted(PAIRS) == sorted((task, optimizer) for task, each in TASKS.items() for optimizer in each.rates)
    assert all(first_of(method.sweep) in METHODS for method in METHODS.values())
    assert not suits("OneBitAdam", "sgd")
    assert suits("int8", "sgd")


def test_momentum_applies_once() -> None:
    assert (codec_of("dgc", "momentum"), has_momentum("dgc", "momentum")) == ("dgc", False)
    assert (codec_of("dgc", "adamw"), codec_of("dgc(ratio=0.1)", "sgd")) == (
        "dgc(momentum=0)",
        "dgc(ratio=0.1, momentum=0)",
    )
    assert has_momentum("int8", "momentum")


def test_results_survive_a_run_that_was_killed(tmp_path: Path) -> None:
    file, lines = tmp_path / "rows.json", tmp_path / "rows.part"
    first, second = (_row(Cell(*PAIR, "int8", 0.1, seed), 1.0) for seed in (1, 0))
    results.write(file, [first, second, {**first, "loss": 2.0}])
    assert results.read(file) == [second, {**first, "loss": 2.0}]
    lines.write_text(json.dumps(first) + '\n{"task": "digi')
    assert results.read_lines(lines) == [first]
    assert results.read(tmp_path / "none") == results.read_lines(tmp_path / "none") == []
