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
        example
        + "total = sum(p.double().sum() for p in model.parameters()).item()\n"
        # In one piece: the ranks write into one file.
        + "print(f'weights {total}\\n', end='')\n"
    )
    printed = pages.run(["torchrun", "--nproc-per-node", "2", str(script)], tmp_path)
    sent = re.findall(r"loss [\d.]+, ([\d,]+) bytes sent for ([\d,]+) bytes of gradients", printed)
    assert len(sent) == 2
    # The codec sends 8 bits for each value of 32 bits, and a scale for each block; the bias travels raw.
    assert all(int(less.replace(",", "")) < int(all_.replace(",", "")) / 3.8 for less, all_ in sent)
    weights = re.findall(r"weights (\S+)", printed)
    assert len(weights) == 2
    assert weights[0] == weights[1]


def test_it_is_short() -> None:
    assert len((pages.ROOT / "README.md").read_text().splitlines()) <= 130


def test_the_commands_exist_and_the_wheel_is_where_pip_looks_for_it() -> None:
    (commands,) = pages.blocks("README.md", "shell")
    makefile = (pages.ROOT / "Makefile").read_text()
    targets = re.findall(r"^make (\w+)", commands, re.MULTILINE)
    assert targets == ["demo", "wheel"]
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)
    assert "pip install torch build/wheel/hipress-*.whl" in commands
    assert "--wheel-dir build/wheel" in makefile


@pytest.mark.slow
def test_the_picture_shows_the_committed_result() -> None:
    pages.run([sys.executable, "docs/draw_idea.py", "--check"], pages.ROOT)


def test_the_numbers_of_the_demo_are_those_of_the_recorded_one() -> None:
    pages.run([sys.executable, "docs/update_figures.py", "--check"], pages.ROOT)
