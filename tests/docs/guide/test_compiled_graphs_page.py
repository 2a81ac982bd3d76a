# SPDX-License-Identifier: Apache-2.0
"""The guide's page on compiled graphs: its script runs by its command."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs import pages

PAGE = "docs/guide/pytorch/compiled-graphs.md"


@pytest.mark.slow
def test_the_script_compresses_the_bucket_of_its_model(tmp_path: Path) -> None:
    (script,) = pages.blocks(PAGE, "python")
    named = re.match(r"# (\w+\.py)\n", script)
    assert named is not None
    (tmp_path / named[1]).write_text(script)
    (commands,) = pages.blocks(PAGE, "bash")
    assert pages.run(["bash", "-euc", commands], tmp_path).count("replaced 1, kept 0") == 2
    assert len(list(tmp_path.glob("residuals-*.pt"))) == 2
