# SPDX-License-Identifier: Apache-2.0
"""The rows of benchmarks/start."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

START = Path(__file__).parents[3] / "benchmarks" / "start"


def test_each_number_of_ranks_has_a_row(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    words = ["--ranks", "1,3", "--tensors", "5", "--repeats", "1", "--json", str(file)]
    subprocess.run([sys.executable, START, *words], check=True, timeout=120)
    rows = json.loads(file.read_text())
    assert [(row["ranks"], row["tensors"]) for row in rows] == [(1, 5), (3, 5)]
    assert all(0 < row["met_s"] <= row["agreed_s"] for row in rows)
    assert all(row["rank0_cpu_s"] > 0 and row["rank0_mib"] > 10 for row in rows)
    assert rows[1]["loopback_bytes"] > 1000
