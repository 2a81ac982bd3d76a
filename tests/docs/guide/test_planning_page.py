# SPDX-License-Identifier: Apache-2.0
"""The guide on planning works from an empty folder, with its own commands and files only."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hipress.secopa.profile.gradients import read_gradients
from tests.docs import pages

pytestmark = pytest.mark.slow

PAGE = "docs/guide/planning.md"


@pytest.mark.thorough
def test_the_page_can_be_followed_from_an_empty_folder(tmp_path: Path) -> None:
    printed = ""
    for language, text in pages.all_blocks(PAGE):
        if language == "python":
            named = re.match(r"# (\w+\.py)\n", text)
            assert named is not None, f"the page names no file for:\n{text}"
            (tmp_path / named[1]).write_text(text)
        elif language == "bash":
            printed += pages.run(["bash", "-euc", text], tmp_path)
    assert "Compression " in printed
    assert " here: " in printed
    assert (tmp_path / "bench.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "bench.json").read_text().startswith("{")
    assert "Sequential: 4 gradients, 3.11 MiB; wrote input.txt" in printed
    assert (tmp_path / "input.txt").read_text() == "0.weight,802816\n0.bias,1024\n2.weight,10240\n2.bias,10\n"
    assert read_gradients(tmp_path / "model.json").backward_s > 0
    assert (tmp_path / "SeCoPaPlan.txt").read_text().startswith("0.weight,802816,y,1\n")
    assert "fits the 4 gradients of input.txt" in printed
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")
    assert "25 Gbit/s" in printed
    assert (tmp_path / "steps.svg").read_text().startswith("<svg")
    assert "steps of 2 ranks" in printed
