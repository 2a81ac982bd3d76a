# SPDX-License-Identifier: Apache-2.0
"""README is short, its example runs, and its picture and the demo's numbers come from committed results."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.docs import pages


@pytest.mark.slow
def test_the_example_is_short_and_runs_on_two_ranks(tmp_path: Path) -> None:
    (example,) = pages.blocks("README.md", "python")
    assert len(example.splitlines()) <= 20
    script = tmp_path / "train.py"
    # Different replicas at the end would mean that the example does not synchronise.
    script.write_text(
        example + "total = sum(p.double().sum() for p in model.parameters()).item()\nprint('weights', total)\n"
    )
    printed = pages.launch(script, ranks=2)
    sent = re.findall(r"loss [\d.]+, ([\d,]+) bytes sent for ([\d,]+) bytes of gradients", printed)
    assert len(sent) == 2
    # The codec sends a bit for each value of 32 bits, and headers; small parameters travel raw.
    assert all(int(less.replace(",", "")) < int(all_.replace(",", "")) / 15 for less, all_ in sent)
    weights = re.findall(r"weights (\S+)", printed)
    assert len(weights) == 2
    assert weights[0] == weights[1]


def test_it_is_short() -> None:
    assert len((pages.ROOT / "README.md").read_text().splitlines()) <= 120


@pytest.mark.slow
def test_the_picture_shows_the_committed_result() -> None:
    pages.run([sys.executable, "docs/draw_idea.py", "--check"], pages.ROOT)


def test_the_numbers_of_the_demo_are_those_of_the_recorded_one() -> None:
    pages.run([sys.executable, "docs/update_figures.py", "--check"], pages.ROOT)
