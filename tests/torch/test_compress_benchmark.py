# SPDX-License-Identifier: Apache-2.0
"""examples/torch/compress_benchmark.py: MergeComp's command line starts a training and sends the bytes that it
reports."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs import pages

pytestmark = pytest.mark.slow

COMMAND = [sys.executable, str(pages.ROOT / "examples" / "torch" / "compress_benchmark.py")]
SMALL = ("--model", "resnet50", "--image-size", "32", "--batch-size", "2", "--num-iters", "2")
#: The size of ResNet-50's raw gradients.
MEGABYTES = 4 * 25.557


def sent(folder: Path, *options: str) -> float:
    """The megabytes that rank 0 of two ranks sends per iteration."""
    launcher = [sys.executable, "-m", "hipress.cli", "run", "-np", "2"]
    printed = pages.run([*launcher, *COMMAND, *SMALL, *options], folder, timeout=280)
    found = re.search(r"2 ranks: [\d.]+ images/s, \d+ ms per iteration, ([\d.]+) MB sent per rank", printed)
    assert found, printed
    return float(found[1])


@pytest.mark.thorough
def test_the_seeds_command_compresses_all_gradients_in_one_group(tmp_path: Path) -> None:
    options = ("--compress", "--compressor", "onebit", "--comm", "allgather", "--memory", "residual")
    assert sent(tmp_path, *options, "--fusion-num", "1") == pytest.approx(MEGABYTES / 32, rel=0.02)


@pytest.mark.thorough
def test_without_compress_gradients_travel_as_they_are(tmp_path: Path) -> None:
    assert sent(tmp_path) == pytest.approx(MEGABYTES, rel=0.05)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--compressor", "topq"), "--compressor topq: there are fp32 and "),
        (("--compressor", "onebit", "--memory", "dgc"), "--memory dgc is dgc's alone"),
    ],
)
def test_what_is_not_there_is_said(options: tuple[str, ...], message: str) -> None:
    done = subprocess.run([*COMMAND, "--compress", *options], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert message in done.stderr
