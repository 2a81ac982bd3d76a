# SPDX-License-Identifier: Apache-2.0
"""benchmarks/checkpoint_cost.py works, its committed result keeps its bar, and the documents' table shows it."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.checkpoints import cost
from benchmarks.checkpoints.cost_job import Times

ROOT = Path(__file__).parents[3]
RESULT = ROOT / "benchmarks" / "results" / "checkpoint-cost.json"
#: Bytes of ResNet-50's gradients as float32; its small ones travel raw and have no states.
RESNET50 = 4 * 25_557_032


@pytest.mark.slow
@pytest.mark.thorough
def test_a_few_turns(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    script = [sys.executable, str(ROOT / "benchmarks" / "checkpoint_cost.py"), "--json", str(file)]
    subprocess.run([*script, "--model", "resnet50", "--codec", "dgc", "--repeats", "2"], check=True)
    rows = json.loads(file.read_text())
    assert [(row["codec"], row["way"], row["states"]) for row in rows] == [
        ("dgc", "DistributedOptimizer", "own"),
        ("dgc", "DistributedOptimizer", "mean"),
        ("dgc", "DDP's hook", "own"),
    ]
    for row in rows:
        assert row["size_bytes"] == pytest.approx(2 * RESNET50, rel=0.01)  # dgc has two states
        assert row["repeats"] == 2
        assert 0 < row["cpu_min_s"] <= row["cpu_s"] <= row["cpu_max_s"]


def test_a_ratio_is_the_median_of_the_turns() -> None:
    times = {
        "own": Times([2.0, 3.0, 9.0], [1.0, 3.0, 8.0]),
        "mean": Times([4.0, 4.0, 4.0], [4.0, 4.0, 4.0]),
        "copy": Times([1.0, 2.0, 3.0], [1.0, 1.0, 2.0]),
    }
    own, mean = cost.rows_of({"model": "m"}, 12, times)
    assert (own["states"], own["time_copy_ratio"], own["cpu_copy_ratio"]) == ("own", 2.0, 3.0)
    assert (mean["states"], mean["time_copy_ratio"], mean["cpu_copy_ratio"]) == ("mean", 2.0, 4.0)
    assert (own["time_s"], own["copy_s"], own["copy_cpu_s"], own["size_bytes"]) == (3.0, 2.0, 1.0, 12)


def test_a_ranks_own_states_cost_less_than_two_copies() -> None:
    rows = json.loads(RESULT.read_text())
    own = {(row["model"], row["codec"], row["way"]): row for row in rows if row["states"] == "own"}
    assert own.keys() == {
        (model, codec, way)
        for model in ("resnet50", "bert-base")
        for codec in ("onebit", "dgc")
        for way in ("DistributedOptimizer", "DDP's hook")
    }
    for row in own.values():
        assert row["repeats"] >= 9
        assert row["cpu_copy_ratio"] < 2


def test_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "tables"))
    tables: Any = importlib.import_module("checkpoint_table")
    row = {"model": "resnet50", "codec": "dgc", "way": "DDP's hook", "states": "own", "size_bytes": 204_000_000}
    row |= {"copy_cpu_s": 0.1, "cpu_copy_ratio": 1.25, "time_copy_ratio": 1.5, "ranks": 2, "repeats": 15}
    text = tables.cost_table([row])
    assert text.splitlines()[-1] == (
        "| resnet50 | `dgc` | DDP's hook | this rank's | 204 MB | 100 ms | 1.25 × | 1.50 × |"
    )
    assert tables.cost_table(None) == "Not measured.\n"
