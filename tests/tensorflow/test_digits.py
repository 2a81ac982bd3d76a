# SPDX-License-Identifier: Apache-2.0
"""Real training: compressed gradients reach nearly the accuracy of uncompressed ones, with a fraction of the bytes.

tests/torch/test_digits.py trains with codecs of every kind, and the suite of all frameworks compares what they send. So
a dense codec and a sparse one tell whether a training of this framework works.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests import digits
from tests.docs import pages

pytestmark = pytest.mark.slow

EXAMPLES = pages.ROOT / "examples" / "tensorflow"
#: Both ranks together have as many images per step as the example's four ranks. A codec that sends few values needs
#: more epochs.
USUAL, LONG = ["--batch-size", "16", "--epochs", "8"], ["--batch-size", "16", "--epochs", "16"]
#: By codec: how many times fewer bytes the last epoch sends, and the options of the training.
SMALLER = {"onebit": (28, [*USUAL, "--topology", "ps"]), "dgc": (200, [*LONG, "--topology", "ring"])}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The reports of the training without compression, and of each codec's."""
    trainings = {"none": USUAL, **{codec: ["--codec", codec, *options] for codec, (_, options) in SMALLER.items()}}
    return digits.train("tensorflow", tmp_path_factory.mktemp("digits"), trainings, timeout=250)


@pytest.mark.thorough
def test_uncompressed_gradients_train_well(trained: dict[str, dict[str, Any]]) -> None:
    assert trained["none"]["test_accuracy"] >= 0.97


@pytest.mark.parametrize("codec", SMALLER)
@pytest.mark.thorough
def test_a_codec_trains_nearly_as_well_with_few_bytes(trained: dict[str, dict[str, Any]], codec: str) -> None:
    plain, compressed = trained["none"], trained[codec]
    assert compressed["test_accuracy"] >= plain["test_accuracy"] - 0.015
    assert compressed["bytes_by_epoch"][-1] < plain["bytes_by_epoch"][-1] / SMALLER[codec][0]


def test_the_benchmark_takes_the_first_releases_command_line(tmp_path: Path) -> None:
    launcher = [sys.executable, "-m", "hipress.cli", "run", "-np", "2"]
    program = [sys.executable, str(EXAMPLES / "cnn_benchmark.py")]
    options = ["--model", "MobileNet", "--variable_update", "hipress", "--comp_alg", "dgc"]
    small = ["--image_size", "32", "--batch_size", "2", "--num_batches", "2", "--num_warmup_batches", "1"]
    output = pages.run([*launcher, *program, *options, *small], tmp_path, timeout=250)
    assert "total images/sec" in output
    assert "on 2 processes" in output
