# SPDX-License-Identifier: Apache-2.0
"""examples/torch/precision_lab.py: its table has all formats and all numbers of ranks, with the bytes that they
send."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.docs import pages

pytestmark = pytest.mark.slow

SCRIPT = pages.ROOT / "examples" / "torch" / "precision_lab.py"
#: By format: how many times as many bytes float32 sends.
SMALLER = {"float16": 1.95, "float8 e4m3": 3.6, "float8 e5m2": 3.6}


@pytest.mark.thorough
def test_trainings_are_compared(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), "--epochs", "2", "--output", str(tmp_path)]
    printed = pages.run(command, tmp_path, timeout=280)
    assert (tmp_path / "precision_lab.png").stat().st_size > 10_000
    runs = {(run["ranks"], run["format"]): run for run in json.loads((tmp_path / "precision_lab.json").read_text())}
    assert len(runs) == 9
    for ranks in (2, 4):
        dense = runs[ranks, "float32"]
        for name, factor in SMALLER.items():
            assert name in printed
            assert runs[ranks, name]["bytes"] * factor < dense["bytes"]
            # The ranks together see the same images in the same steps as one process; only rounding differs.
            assert abs(runs[ranks, name]["accuracy"] - runs[1, "float32"]["accuracy"]) < 0.05
