# SPDX-License-Identifier: Apache-2.0
"""The rows of benchmarks/sets."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SETS = Path(__file__).parents[3] / "benchmarks" / "sets"


@pytest.mark.slow
def test_a_codec_has_a_row(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    words = ["--codec", "onebit", "--set", "1", "--tensors", "3", "--steps", "5", "--repeats", "1", "--json", str(file)]
    subprocess.run([sys.executable, SETS, *words], check=True, timeout=120)
    (row,) = json.loads(file.read_text())
    assert (row["codec"], row["ranks"]) == ("onebit", 2)
    assert row["sets_to_jobs_ratio"] == pytest.approx(row["sets_s"] / row["jobs_s"], rel=1e-2)
