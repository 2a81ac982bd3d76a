# SPDX-License-Identifier: Apache-2.0
"""Real training: compressed gradients reach nearly the accuracy of uncompressed ones, with a fraction of the bytes.

tests/torch/test_digits.py trains with codecs of every kind, and the suite of all frameworks compares what they send. So
a dense codec and a sparse one tell whether a training of this framework works.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mxnet", reason="MXNet is not installed (requirements/mxnet.txt)")

from tests.docs import pages

pytestmark = pytest.mark.slow

SCRIPT = pages.ROOT / "examples" / "mxnet" / "digits.py"
#: By codec: how many times fewer bytes the last epoch sends, and the topology.
SMALLER = {"onebit": (28, "ps"), "dgc": (200, "ring")}


def train(folder: Path, codec: str, *options: str) -> dict[str, Any]:
    """Runs digits.py and returns its report."""
    report = folder / "results.json"
    launcher = [sys.executable, "-W", "ignore", "-m", "hipress.cli", "run", "-np", "2"]
    training = [sys.executable, "-W", "ignore", str(SCRIPT), "--codec", codec, "--json", str(report)]
    command = [*launcher, *training, "--epochs", "16", "--batch-size", "16", *options]
    # The ranks compare their replicas after every epoch, and a difference is an error.
    pages.run(command, folder, timeout=200, variables={"HIPRESS_CHECK_REPLICAS": "37"})
    results: dict[str, Any] = json.loads(report.read_text())
    return results


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return train(tmp_path_factory.mktemp("plain"), "none")


def test_uncompressed_gradients_train_well(plain: dict[str, Any]) -> None:
    assert plain["test_accuracy"] >= 0.97


@pytest.mark.parametrize("codec", SMALLER)
def test_a_codec_trains_nearly_as_well_with_few_bytes(tmp_path: Path, plain: dict[str, Any], codec: str) -> None:
    smaller, topology = SMALLER[codec]
    compressed = train(tmp_path, codec, "--topology", topology)
    assert compressed["test_accuracy"] >= plain["test_accuracy"] - 0.015
    assert compressed["bytes_by_epoch"][-1] < plain["bytes_by_epoch"][-1] / smaller
