# SPDX-License-Identifier: Apache-2.0
"""`python benchmarks/fsdp` runs in a small form, and its rows contain the measured figures."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks.fsdp.command import rows_of
from benchmarks.fsdp.job import ALONE, BFLOAT16, FSDP, INT8, SYSTEMS, Trained

ROOT = Path(__file__).parents[3]
SMALL = ["--width", "192", "--layers", "1", "--context", "8", "--steps", "4"]


@pytest.mark.slow
@pytest.mark.thorough
def test_a_few_steps_with_each_system(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    script = [sys.executable, str(ROOT / "benchmarks" / "fsdp"), "--world", "2", "--json", str(file), *SMALL]
    subprocess.run(script, check=True, timeout=300)
    rows = {row["system"]: row for row in json.loads(file.read_text())}
    assert tuple(rows) == SYSTEMS
    losses = [rows[name]["loss_nats"] for name in (FSDP, BFLOAT16, INT8)]
    assert len(set(losses)) == 3  # the systems send in different ways
    assert max(losses) - min(losses) < 0.01
    assert all(row["step_bytes"] is None for row in rows.values())  # without a measured link no bytes are counted


def test_speedups_refer_to_fsdp_as_it_is() -> None:
    trained = {
        ALONE: Trained([0.1], 0.1, 0.0, 7, 4.0),
        FSDP: Trained([3.0, 4.0, 9.0], 0.3, 4e6, 7, 3.0),
        BFLOAT16: Trained([2.0, 2.0, 2.0], 0.3, 2e6, 7, 3.0),
        INT8: Trained([1.0, 0.5, 1.0], 0.4, 1e6, 7, 3.1),
    }
    given = SimpleNamespace(
        **{"nodes": 4, "rate": "1gbit", "world": 9, "text": "help", "steps": 5, "sequences": 2, "context": 3},
        **{"learning_rate": 0.1, "seed": 0},
    )
    row = rows_of(trained, given)[-1]  # type: ignore[arg-type]
    assert (row["fp32_speedup_ratio"], row["bf16_speedup_ratio"]) == (4.0, 2.0)
    assert (row["time_s"], row["time_min_s"], row["time_max_s"]) == (1.0, 0.5, 1.0)
    assert (row["world"], row["rank_tokens"], row["step_bytes"], row["loss_nats"]) == (4, 6, 1e6, 3.1)
