# SPDX-License-Identifier: Apache-2.0
"""Real training: compressed gradients reach nearly the accuracy of uncompressed ones, with a fraction of the bytes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import digits
from tests.docs import pages
from tests.tiers import thorough

pytestmark = pytest.mark.slow

SCRIPT = pages.ROOT / "examples" / "torch" / "digits.py"
#: Both ranks together have as many images per step as the example's four ranks.
SHORT = ("--batch-size", "16")
#: Codecs that send few values need more epochs.
EPOCHS = {"dgc": 16}
USUAL_EPOCHS = 8
#: By codec, at least one of each kind: how many times fewer bytes the last epoch sends.
SMALLER = {
    **{"fp16": 1.9, "onebit": 28, "terngrad": 14, "dgc": 200, "int8": 3.8, "thc": 5.1, "fp4_e2m1": 7.4},
    "powersgd": 100,
}


def train(folder: Path, codec: str, ranks: int, *options: str) -> dict[str, Any]:
    """Runs digits.py and returns its report."""
    report = folder / "results.json"
    launcher = [sys.executable, "-m", "hipress.cli", "run", "-np", str(ranks)] if ranks > 1 else []
    training = [sys.executable, str(SCRIPT), "--codec", codec, "--json", str(report), *options]
    # The ranks compare their replicas after every epoch of two ranks, and a difference is an error.
    pages.run(launcher + training, folder, timeout=200, variables={"HIPRESS_CHECK_REPLICAS": "37"})
    results: dict[str, Any] = json.loads(report.read_text())
    return results


@pytest.mark.timeout(600)
@pytest.mark.parametrize("codecs", [["onebit"], thorough(sorted(SMALLER))], ids=["onebit", "every kind"])
def test_codecs_train_nearly_as_well_with_few_bytes(codecs: list[str], tmp_path: Path) -> None:
    trainings = {
        codec: ["--codec", codec, "--epochs", str(EPOCHS.get(codec, USUAL_EPOCHS)), *SHORT]
        for codec in ("none", *codecs)
    }
    trained = digits.train("torch", tmp_path, trainings, timeout=560)
    plain = trained["none"]
    assert plain["test_accuracy"] >= 0.97
    assert plain["warmup_codecs"] == []
    for codec in codecs:
        compressed = trained[codec]
        assert compressed["test_accuracy"] >= plain["test_accuracy"] - 0.015, codec
        assert len(compressed["bytes_by_epoch"]) == EPOCHS.get(codec, USUAL_EPOCHS)
        # Biases and the first layer are smaller than min_compress_bytes, so they travel raw. The warm-up is over.
        assert compressed["bytes_by_epoch"][-1] < plain["bytes_by_epoch"][-1] / SMALLER[codec], codec


@pytest.mark.thorough
def test_a_sparse_codec_warms_up_to_its_ratio(tmp_path: Path) -> None:
    run = train(tmp_path, "graddrop(ratio=0.02)", 2, "--epochs", "4", "--warmup-epochs", "3")
    assert run["warmup_codecs"] == [f"graddrop(ratio={ratio})" for ratio in (0.25, 0.0625, 0.02)]
    first, second, third, last = run["bytes_by_epoch"]
    assert first > 2 * second > 4 * third
    assert third == pytest.approx(last, rel=0.1)


def test_one_process_trains_without_a_launcher_and_sends_nothing(tmp_path: Path) -> None:
    alone = train(tmp_path, "none", 1, "--epochs", "1")
    assert alone["world_size"] == 1
    assert alone["bytes_per_step_and_rank"] == 0
    assert alone["loss"][-1] < alone["loss"][0] / 2
