# SPDX-License-Identifier: Apache-2.0
"""Real training: compressed gradients reach the accuracy of uncompressed ones, with a fraction of the bytes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.docs import pages

SCRIPT = pages.ROOT / "examples" / "torch" / "digits.py"


def train(folder: Path, codec: str, ranks: int, *options: str) -> dict[str, Any]:
    """What digits.py reports."""
    report = folder / f"{codec}.json"
    launcher = [sys.executable, "-m", "hipress.cli", "run", "-np", str(ranks)] if ranks > 1 else []
    training = [sys.executable, str(SCRIPT), "--codec", codec, "--json", str(report), *options]
    pages.run(launcher + training, folder, timeout=200)
    results: dict[str, Any] = json.loads(report.read_text())
    return results


def test_one_bit_per_value_trains_as_well_as_all_of_them(tmp_path: Path) -> None:
    plain, onebit = (train(tmp_path, codec, 4) for codec in ("none", "onebit"))
    assert plain["test_accuracy"] >= 0.96
    assert onebit["test_accuracy"] >= plain["test_accuracy"] - 0.01
    assert len(onebit["loss"]) == len(plain["loss"])
    # 1/32 of the large gradients; biases and the first layer, smaller than min_compress_bytes, travel as they are.
    assert onebit["bytes_per_step_and_rank"] < plain["bytes_per_step_and_rank"] / 28


def test_one_process_trains_without_a_launcher_and_sends_nothing(tmp_path: Path) -> None:
    alone = train(tmp_path, "none", 1, "--epochs", "1")
    assert alone["world_size"] == 1
    assert alone["bytes_per_step_and_rank"] == 0
    assert alone["loss"][-1] < alone["loss"][0] / 2
