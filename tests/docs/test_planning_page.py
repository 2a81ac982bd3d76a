# SPDX-License-Identifier: Apache-2.0
"""The guide on planning: its commands run, one after the other."""

from __future__ import annotations

from pathlib import Path

from tests.docs import pages

PAGE = "docs/guide/planning.md"
TRAINING = "docs/guide/training.md"


def test_the_commands(tmp_path: Path) -> None:
    (tmp_path / "input.txt").write_text("weight,102760448\nbias,4096\n")
    (tmp_path / "train.py").write_text(pages.blocks(TRAINING, "python")[0])
    printed = "".join(pages.run(["bash", "-euc", command], tmp_path) for command in pages.blocks(PAGE, "bash"))
    assert "fine for the 2 gradients of input.txt" in printed
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")
    assert "25 Gbit/s" in printed
    assert (tmp_path / "steps.svg").read_text().startswith("<svg")
    assert (tmp_path / "SeCoPaPlan.txt").read_text().startswith("weight,102760448,y,4\n")
