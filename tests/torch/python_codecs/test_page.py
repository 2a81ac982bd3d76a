# SPDX-License-Identifier: Apache-2.0
"""docs/extending/python-codec.md: its programs and commands run, and print what the page says."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.docs import pages

PAGE = "docs/extending/python-codec.md"

pytestmark = pytest.mark.slow


def _command(text: str, folder: Path) -> str:
    return pages.run(["bash", "-ec", text], folder)


def test_everything_on_the_page_runs(tmp_path: Path) -> None:
    codecs, train, compressors = pages.blocks(PAGE, "python")
    (tmp_path / "mycodecs.py").write_text(codecs)
    (tmp_path / "train.py").write_text(train)
    (tmp_path / "compressors.py").write_text(compressors)
    run, check, compare = pages.blocks(PAGE, "bash")
    assert "largest(ratio=0.05): " in _command(run, tmp_path)
    assert _command(check, tmp_path) == pages.blocks(PAGE, "text")[0]
    assert "agree: the greatest difference is 0 of the greatest value" in _command(compare, tmp_path)
    printed = pages.run([sys.executable, "compressors.py"], tmp_path)
    assert printed == "half(error_feedback=false)\n"


def test_its_classes_have_about_ten_lines() -> None:
    classes = pages.blocks(PAGE, "python")[0].split("class ")[1:]
    lines = [len([line for line in part.splitlines() if line.strip() and '"""' not in line]) for part in classes]
    assert max(lines) <= 10, lines
