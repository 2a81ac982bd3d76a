# SPDX-License-Identifier: Apache-2.0
"""Twenty seconds of the soak test, always with the same rounds; `make soak` plays other rounds for half an hour."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.soak.rounds import ANYWHERE, BETWEEN_NODES, draw

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.thorough
def test_nothing_is_violated(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.soak", "--seconds", "20", "--seed", "1", "--logs", str(tmp_path / "logs")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing violated" in done.stdout


def test_a_seed_and_a_number_say_everything() -> None:
    assert draw(7, 3, True) == draw(7, 3, True)
    assert {draw(7, number, True).fault for number in range(300)} == {*ANYWHERE, *BETWEEN_NODES}
    assert not any(draw(7, number, False).on_nodes for number in range(300))
