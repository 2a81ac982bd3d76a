# SPDX-License-Identifier: Apache-2.0
"""The guide's page on GRACE: its blocks run as one script, and its table names all existing compressors."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hipress.torch.grace import COMPRESSORS, WITHOUT_CODEC
from tests.docs import pages

PAGE = "docs/guide/grace.md"


@pytest.mark.slow
def test_the_python_blocks_run_on_two_ranks(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("\n".join(pages.blocks(PAGE, "python")))
    weights = re.findall(r"weights (\S+)", pages.launch(script, ranks=2))
    assert len(weights) == 2
    assert weights[0] == weights[1]


@pytest.mark.slow
def test_the_command_starts_the_script(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(pages.blocks(PAGE, "python")[0])
    (command,) = pages.blocks(PAGE, "bash")
    assert pages.run(["bash", "-euc", command], tmp_path).count("weights") == 2


def test_the_table_has_all_compressors() -> None:
    text = (pages.ROOT / PAGE).read_text()
    rows = re.findall(r"^\| `(\w+)` \| `", text, re.MULTILINE)
    assert sorted(rows) == sorted(COMPRESSORS)
    assert not set(WITHOUT_CODEC) & set(COMPRESSORS)
