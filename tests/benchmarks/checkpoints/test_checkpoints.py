# SPDX-License-Identifier: Apache-2.0
"""benchmarks/checkpoints.py works, its committed results keep their bars, and the documents' table shows them."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import regenerate
from benchmarks.checkpoints import command
from benchmarks.checkpoints.job import Trained

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "benchmarks" / "results"


@pytest.mark.slow
@pytest.mark.thorough
def test_a_few_steps(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    script = [sys.executable, str(ROOT / "benchmarks" / "checkpoints.py"), "--steps", "12", "--seed", "0"]
    subprocess.run([*script, "--ranks", "4,2", "--json", str(file)], check=True)
    rows = json.loads(file.read_text())
    assert [(row["seed"], row["training"], row["ranks"]) for row in rows] == [
        *((0, "uninterrupted", "4"), (0, "residuals kept", "4, 2"), (0, "residuals dropped", "4, 2")),
    ]
    assert list(rows[0]["losses_nats"]) == ["2", "4", "6", "8", "10", "12"]
    assert list(rows[1]["losses_nats"]) == ["8", "10", "12"]
    assert list(rows[1]["load_errors"]) == ["6"]
    assert all(norm > 0 for norm in rows[1]["residual_norms"].values())
    assert all(error < 1e-6 for error in rows[1]["load_errors"].values())
    # So few steps after a checkpoint the losses tell at once whether the residuals are there.
    assert rows[1]["above_whole_nats"] == pytest.approx(0, abs=0.01)
    assert abs(rows[2]["above_whole_nats"]) > 3 * abs(rows[1]["above_whole_nats"])


def test_the_interrupted_trainings_cover_all_steps(tmp_path: Path) -> None:
    trainings = command.legs("onebit", 0, 600, tmp_path, dropped=True)
    ((ranks, whole),) = trainings["uninterrupted"]
    assert (ranks, whole.first, whole.last, whole.save_at, whole.load) == (4, 0, 600, 200, "")
    for name in ("residuals kept", "residuals dropped"):
        (two, second), (eight, third) = trainings[name]
        assert (two, second.first, second.last, second.save_at) == (2, 200, 400, 400)
        assert (eight, third.first, third.last, third.save) == (8, 400, 600, "")
        assert second.load == whole.save
        assert third.load == second.save
        assert second.keeps_residuals is third.keeps_residuals is (name == "residuals kept")
    assert trainings["residuals kept"][0][1].save != trainings["residuals dropped"][0][1].save
    assert "residuals dropped" not in command.legs("onebit", 1, 600, tmp_path, dropped=False)


def test_the_rows_have_the_paired_differences() -> None:
    trained = {
        seed: {
            "uninterrupted": [Trained({"600": loss}, 10)],
            "residuals kept": [
                Trained({"300": 3.0, "400": 2.5}, 10, 4.0, 4.0, 1e-8),
                Trained({"600": loss + above}, 10, 2.0, 2.0, 2e-8),
            ],
        }
        for seed, loss, above in ((0, 2.0, 0.05), (1, 2.2, -0.3))
    }
    rows = command.rows_of("onebit", 600, trained)
    spread = float(np.std([2.0, 2.2], ddof=1))
    assert [row["above_whole_nats"] for row in rows] == [None, pytest.approx(0.05), None, pytest.approx(-0.3)]
    assert [row["spreads_ratio"] for row in rows[1::2]] == [pytest.approx(0.05 / spread), pytest.approx(0.3 / spread)]
    assert rows[1]["residual_norms"] == {"200": 4.0, "400": 2.0}
    assert rows[1]["load_errors"] == {"200": 1e-8, "400": 2e-8}
    assert rows[1]["losses_nats"] == {"300": 3.0, "400": 2.5, "600": 2.05}
    assert rows[0]["residual_norms"] is None


@pytest.mark.parametrize("name", regenerate.CHECKPOINTS)
def test_the_committed_result_keeps_its_bars(name: str) -> None:
    rows = json.loads((RESULTS / f"{name}.json").read_text())
    assert {(row["system"], row["steps"]) for row in rows} == {(regenerate.CHECKPOINTS[name][1], 600)}
    kept = [row for row in rows if row["training"] == "residuals kept"]
    assert [row["seed"] for row in kept] == [0, 1, 2]
    for row in kept:
        assert row["spreads_ratio"] < 1
        assert set(row["load_errors"]) == {"200", "400"}
        for step, error in row["load_errors"].items():
            assert error < 1e-6
            assert row["loaded_norms"][step] == pytest.approx(row["residual_norms"][step], rel=1e-6)


def difference(above: float, spreads: float, error: float) -> dict[str, Any]:
    return {"above_whole_nats": above, "spreads_ratio": spreads, "load_errors": {"200": error}}


def test_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "tables"))
    tables: Any = importlib.import_module("checkpoint_table")
    known = {"system": "onebit", "parameters": 1_000_000, "steps": 600, "sequences": 16, "spread_nats": 0.1}
    whole = {**known, "training": "uninterrupted", "ranks": "4", "above_whole_nats": None}
    kept = {**known, "training": "residuals kept", "ranks": "4, 2, 8"}
    rows = [
        {**whole, "seed": 0, "loss_nats": 2.0},
        {**kept, "seed": 0, "loss_nats": 2.02, **difference(0.02, 0.2, 1e-8)},
        {**whole, "seed": 1, "loss_nats": 2.1},
        {**kept, "seed": 1, "loss_nats": 2.3, **difference(0.2, 2.0, 3e-8)},
    ]
    text = tables.resumed_table({"checkpoints": rows, "not there": None})
    assert text.splitlines()[2:6] == [
        "| System | Ranks | Training | Seed 0 | Seed 1 |",
        "|---|---|---|--:|--:|",
        "| `onebit` | 4 | uninterrupted | 2.000 | 2.100 |",
        "| `onebit` | 4 → 2 → 8 | residuals kept | 2.020 | 2.300 |",
    ]
    assert "by +0.0200, +0.2000 nats (mean +0.1100): 1 of 2 are within one standard deviation" in text
    assert "at most 3.0e-08 of its length" in text
    assert tables.resumed_table({"checkpoints": None}) == "Not measured.\n"
