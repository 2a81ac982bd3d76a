# SPDX-License-Identifier: Apache-2.0
"""The rows of benchmarks/members."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.members.command import Failed, _at

MEMBERS = Path(__file__).parents[3] / "benchmarks" / "members"


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_each_kind_of_training_has_a_row(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    words = ["--replicas", "3", "--seeds", "1", "--steps", "60", "--sync-every", "5", "--json", str(file)]
    subprocess.run([sys.executable, MEMBERS, *words], check=True, timeout=500)
    steady, lost, late = json.loads(file.read_text())
    assert (steady["steps"], steady["steps_lost"], steady["behind_steady_nats"]) == (180, 0, 0)
    assert 80 <= lost["steps"] - lost["steps_lost"] < 180
    assert 140 <= late["steps"] < 180
    assert [row["steps_repeated"] for row in (steady, lost, late)] == [0, 0, 0]
    assert all(row["loss_nats"] < 5.6 for row in (steady, lost, late))  # it begins at log 256


def test_a_loss_between_two_points_of_a_curve() -> None:
    curve = [(10, 4.0), (20, 3.0), (40, 2.0)]
    assert _at(15, curve) == 3.5
    assert _at(40, curve) == 2.0
    with pytest.raises(Failed, match="no loss at 50"):
        _at(50, curve)
