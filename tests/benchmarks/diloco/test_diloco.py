# SPDX-License-Identifier: Apache-2.0
"""benchmarks/diloco.py runs in a small form, and its rows contain the measured figures."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.diloco.job import ALONE, DDP, SYSTEMS, WAITING, Trained
from benchmarks.diloco.rows import rows_of

ROOT = Path(__file__).parents[3]
SMALL = ["--width", "64", "--layers", "1", "--context", "8", "--sequences", "1", "--sync-every", "4"]


@pytest.mark.slow
@pytest.mark.thorough
def test_a_few_steps_with_each_system(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    script = [sys.executable, str(ROOT / "benchmarks" / "diloco.py"), "--world", "2", "--json", str(file), *SMALL]
    numbers = ["--ddp-steps", "8", "--steps", "12", "--every", "4", "--overlap-steps", "1"]
    subprocess.run([*script, *numbers], check=True, timeout=120)
    rows = {row["system"]: row for row in json.loads(file.read_text())}
    assert tuple(rows) == SYSTEMS
    assert [rows[name]["steps"] for name in (DDP, "diloco", "local_sgd")] == [8, 12, 12]
    for name in set(SYSTEMS) - {ALONE, WAITING}:
        steps = [str(step) for step in range(4, rows[name]["steps"] + 1, 4)]
        assert list(rows[name]["losses_nats"]) == list(rows[name]["times_s"]) == steps
        assert list(rows[name]["times_s"].values()) == sorted(rows[name]["times_s"].values())
        assert 0 < rows[name]["loss_nats"] < 6  # 256 equally likely bytes have a loss of 5.5
    # The systems train in different ways, so their losses differ.
    assert len({rows[name]["loss_nats"] for name in ("diloco", "streaming", "sparseloco", "local_sgd")}) == 4
    assert all(rows[name]["sent_bytes"] is None for name in SYSTEMS)  # without a measured link no bytes are counted


def _trained(steps: int, time_s: float, waiting_s: float | None, losses: dict[int, float]) -> Trained:
    times = {step: time_s * step / steps for step in losses}
    return Trained(steps, time_s, waiting_s, 1000 * steps, 7, times, losses)


def _rows() -> dict[str, dict[str, Any]]:
    trained = {
        ALONE: _trained(10, 1.0, 0.0, {}),
        DDP: _trained(10, 100.0, None, {5: 3.0, 10: 2.0}),
        "diloco": _trained(20, 4.0, 1.0, {5: 5.0, 10: 3.5, 15: 2.9, 20: 2.5}),
        "streaming": _trained(20, 3.0, 0.2, {5: 5.0, 10: 3.1, 15: 3.1, 20: 3.1}),
        WAITING: _trained(10, 2.0, 1.0, {}),
    }
    given = SimpleNamespace(
        **{"nodes": 4, "rate": "100mbit", "round_trip": 50.0, "world": 9, "ddp_steps": 10, "sequences": 2},
        **{"context": 3, "sync_every": 5, "fragments": 1, "overlap_steps": 2, "learning_rate": 0.1, "seed": 0},
        streaming_codec="bf16",
    )
    return {str(row["system"]): row for row in rows_of(trained, given)}  # type: ignore[arg-type]


def test_rows_compare_with_ddp_at_half_its_run() -> None:
    rows = _rows()
    assert rows[DDP]["target_loss_nats"] == 3.0
    assert rows[DDP]["to_target_s"] == 50.0
    assert rows["diloco"]["to_target_s"] == 3.0  # it reaches the target after 15 steps
    assert rows["diloco"]["speedup_ratio"] == pytest.approx(50 / 3)
    assert rows["streaming"]["speedup_ratio"] is None  # it never reaches the target
    assert rows["diloco"]["equal_tokens_loss_nats"] == 3.5
    assert rows["diloco"]["rank_tokens"] == 20 * 6


def test_rows_say_what_was_waited_for() -> None:
    rows = _rows()
    assert rows[DDP]["waited_s"] == 99.0  # 10 steps of ranks that do not communicate take a second
    assert rows["diloco"]["waited_percent"] == 25.0
    # A step waits 0.01 s of the 0.1 s that the same exchanges take without overlap.
    assert rows["streaming"]["hidden_percent"] == pytest.approx(90.0)
    assert rows["diloco"]["hidden_percent"] is None


def test_the_table_has_a_row_for_each_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "tables"))
    table = importlib.import_module("diloco_table").diloco_table
    lines = table(list(_rows().values())).splitlines()
    assert sum(line.startswith("| `") for line in lines) == 2
    assert "16.7 ×" in next(line for line in lines if line.startswith("| `diloco`"))
    assert table(None).endswith("\nNot measured.\n")
