# SPDX-License-Identifier: Apache-2.0
"""The rows of benchmarks/calls.py."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def test_each_way_has_a_row(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    subprocess.run(
        [sys.executable, BENCHMARKS / "calls.py", "--world", "2", "--elements", "16", "--repeats", "2", "--json", file],
        check=True,
        timeout=120,
    )
    rows = json.loads(file.read_text())
    assert [row["way"] for row in rows] == ["list", "calls", "gloo"]
    assert all(row["tensors"] == 161 and row["time_s"] > 0 and row["repeats"] == 2 for row in rows)
    assert rows[0]["more_than_list_s"] == 0
