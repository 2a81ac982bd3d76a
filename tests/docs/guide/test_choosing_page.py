# SPDX-License-Identifier: Apache-2.0
"""docs/guide/choosing-a-codec.md: its code runs, and HiPress gives the advice that the page explains."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs import pages

PAGE = "docs/guide/choosing-a-codec.md"


@pytest.mark.slow
@pytest.mark.thorough
def test_the_python_block_runs(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("\n".join(pages.blocks(PAGE, "python")) + "\nprint('reached the end')\n")
    printed = pages.launch(script, ranks=2)
    assert printed.count("reached the end") == 2
    assert printed.count("codec 'onebit' has error feedback (it sends dropped values later), and AdamW divides") == 2
    assert f"see {PAGE}" in printed
