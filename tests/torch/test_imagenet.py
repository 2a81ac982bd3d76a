# SPDX-License-Identifier: Apache-2.0
"""examples/torch/pytorch_imagenet.py in a small form, with random images and with folders of pictures."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from PIL import Image

from tests.docs import pages

pytestmark = [pytest.mark.slow, pytest.mark.thorough]

SCRIPT = pages.ROOT / "examples" / "torch" / "pytorch_imagenet.py"
SMALL = ("--model", "resnet50", "--image-size", "32", "--batch-size", "2", "--num-iterations", "3")


def train(folder: Path, *options: str, ranks: int = 2) -> str:
    """The output of rank 0."""
    launcher = [sys.executable, "-m", "hipress.cli", "run", "-np", str(ranks)] if ranks > 1 else []
    return pages.run([*launcher, sys.executable, str(SCRIPT), *options], folder, timeout=280)


def megabytes_sent(printed: str) -> float:
    found = re.search(r"images/s, ([\d.]+) MB sent per rank and iteration", printed)
    assert found, printed
    return float(found[1])


def test_random_images_with_and_without_compression(tmp_path: Path) -> None:
    plain = train(tmp_path, *SMALL)
    assert "epoch 1 iteration 3/3" in plain
    compressed = train(tmp_path, *SMALL, "--algorithm", "tbq", "--epochs", "2")
    assert "epoch 2/2   last loss" in compressed
    assert megabytes_sent(compressed) < megabytes_sent(plain) / 12


@pytest.mark.parametrize("part", ["train", "val"])
def test_folders_of_pictures(tmp_path: Path, part: str) -> None:
    for number in range(12):
        folder = tmp_path / part / f"class{number % 3}"
        folder.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (40 + number, 60), (20 * number, 0, 255)).save(folder / f"{number}.JPEG")
    options = {"train": ("--train-dir", "train"), "val": ("--val-dir", "val")}[part]
    printed = train(tmp_path, *SMALL, *options)
    assert "epoch 1 iteration 3/3" in printed
    assert ("accuracy" in printed) == (part == "val")


def test_a_folder_without_pictures(tmp_path: Path) -> None:
    (tmp_path / "empty" / "class").mkdir(parents=True)
    with pytest.raises(AssertionError, match=r"has no images: expected empty/CLASS/\*\.JPEG"):
        train(tmp_path, *SMALL, "--train-dir", "empty", ranks=1)


def test_vgg19_alone(tmp_path: Path) -> None:
    printed = train(tmp_path, "--batch-size", "1", "--num-iterations", "1", "--algorithm", "tbq", ranks=1)
    assert "vgg19, tbq, 1 ranks" in printed
