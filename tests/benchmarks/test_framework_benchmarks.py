# SPDX-License-Identifier: Apache-2.0
"""benchmarks/adapter_cost.py and accuracy.py measure the figures that they name; no test checks a speed or an
accuracy."""

from __future__ import annotations

import importlib
import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.slow
@pytest.mark.thorough
def test_an_adapters_cost_is_the_difference_of_the_steps_by_tensor(tmp_path: Path) -> None:
    file = tmp_path / "cost.json"
    script = [sys.executable, str(BENCHMARKS / "adapter_cost.py")]
    subprocess.run(
        [*script, "--framework", "torch", "--tensors", "300", "--steps", "5", "--json", str(file)], check=True
    )
    (row,) = json.loads(file.read_text())
    assert (row["framework"], row["tensors"], row["steps"]) == ("torch", 300, 5)
    assert 0 < row["alone_min_s"] <= row["alone_s"] <= row["alone_max_s"]
    assert row["adapter_per_tensor_min_s"] <= row["adapter_per_tensor_s"] <= row["adapter_per_tensor_max_s"]
    # The median of differences is not the difference of medians, but it is near it.
    assert row["adapter_per_tensor_max_s"] < row["distributed_max_s"] / 300


@pytest.fixture
def accuracy(monkeypatch: pytest.MonkeyPatch) -> Any:
    return importlib.import_module("benchmarks.training.accuracy")


def test_accuracies_are_means_of_the_seeds(accuracy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def train(python: str, framework: str, codec: str, topology: str, seed: int) -> dict[str, Any]:
        assert (python, framework, codec, topology) == ("python", "mxnet", "tbq", "ring")
        return {"test_accuracy": 0.98 + 0.01 * seed, "bytes_per_step_and_rank": 1000 + seed}

    monkeypatch.setattr(accuracy, "train", train)
    row = accuracy.row("python", "mxnet", "tbq", "ring", seeds=2)
    assert row["accuracy_percent"] == pytest.approx(98.5)
    assert (row["accuracy_min_percent"], row["accuracy_max_percent"]) == pytest.approx((98.0, 99.0))
    assert row["seeds"] == 2


def test_a_training_is_run_by_the_frameworks_example(accuracy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str], *, env: dict[str, str], **_: Any) -> None:
        given = dict(itertools.pairwise(command))
        assert Path(command[7]) == BENCHMARKS.parent / "examples" / "mxnet" / "digits.py"
        assert Path(command[7]).exists()
        assert (given["--codec"], given["--topology"], given["--seed"], given["-np"]) == ("dgc", "ring", "2", "2")
        # 1,198 images, divided by 2 ranks and 16 images per step, make 37 steps.
        assert env["HIPRESS_CHECK_REPLICAS"] == "37"
        Path(given["--json"]).write_text('{"test_accuracy": 0.5}')

    monkeypatch.setattr(accuracy.subprocess, "run", run)
    monkeypatch.setattr(accuracy.framework_environment, "variables", lambda framework: {})
    assert accuracy.train("python", "mxnet", "dgc", "ring", 2) == {"test_accuracy": 0.5}
