# SPDX-License-Identifier: Apache-2.0
"""examples/torch/decoder.py and resnet50.py in a small form: each way of using HiPress trains, and sends the bytes that
its codec promises."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.docs import pages

pytestmark = pytest.mark.slow

EXAMPLES = pages.ROOT / "examples" / "torch"
WAYS = ["optimizer", "ddp", "fsdp", "diloco"]


def rows(folder: Path, script: str, ways: list[str], *options: str) -> dict[str, str]:
    """By way: the line that rank 0 of two ranks prints."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    printed = pages.run([*launcher, str(EXAMPLES / script), "--ways", *ways, *options], folder, timeout=280)
    found = {line.partition(",")[0]: line for line in printed.splitlines() if " MB sent per step" in line}
    assert list(found) == ways, printed
    return found


def megabytes(line: str) -> float:
    (sent,) = re.findall(r"([\d.]+) MB sent per step", line)
    return float(sent)


def test_a_decoder_by_each_way_in(tmp_path: Path) -> None:
    small = ["--steps", "10", "--batch", "2", "--length", "32", "--layers", "2", "--width", "96"]
    found = rows(tmp_path, "decoder.py", WAYS, *small)
    (parameters,) = {re.findall(r"([\d,]+) parameters", line)[0] for line in found.values()}
    raw = 4e-6 * int(parameters.replace(",", ""))
    for way in WAYS[:3]:
        assert raw / 5 < megabytes(found[way]) < raw / 3, found[way]  # int8 with its scales; the biases travel raw
    # DiLoCo exchanges twice in ten steps.
    assert megabytes(found["diloco"]) < raw / 15
    losses = [float(re.findall(r"loss ([\d.]+)", line)[0]) for line in found.values()]
    # An untrained model has a loss of about log(100) = 4.6, for 100 characters. The first three ways use the same data
    # and the same codec.
    assert max(losses) < 4.4
    assert max(losses[:3]) - min(losses[:3]) < 0.05


@pytest.mark.thorough
def test_resnet50_by_two_ways_in(tmp_path: Path) -> None:
    small = ["--steps", "5", "--batch", "2", "--image-size", "32"]
    found = rows(tmp_path, "resnet50.py", ["fsdp", "diloco"], *small)
    assert all(" images/s, " in line for line in found.values())
    assert megabytes(found["fsdp"]) < 102.2 / 25
    assert megabytes(found["diloco"]) < megabytes(found["fsdp"]) / 3
