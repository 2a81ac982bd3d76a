# SPDX-License-Identifier: Apache-2.0
"""The guide's page on Adam: its blocks run as one script, over the engine, and every rank ends with the same model."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs import pages

PAGE = "docs/guide/adam.md"


@pytest.mark.slow
@pytest.mark.thorough
def test_the_python_blocks_run_on_two_ranks(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("\n".join(pages.blocks(PAGE, "python")))
    weights = re.findall(r"weights (\S+)", pages.launch(script, ranks=2))
    assert len(weights) == 10
    # Both ranks print a line for each block.
    assert sorted(weights)[0::2] == sorted(weights)[1::2]
