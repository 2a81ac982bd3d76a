# SPDX-License-Identifier: Apache-2.0
"""The guide's page on training over the internet: its blocks run as one script, that of the elastic job by itself, and
its table lists the presets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hipress.torch.diloco import PRESETS
from tests.docs import pages

PAGE = "docs/guide/over-the-internet.md"
#: The first line of the script for an elastic job.
ELASTIC = "# train.py"


@pytest.mark.slow
@pytest.mark.thorough
def test_the_python_blocks_run_on_two_ranks(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("\n".join(block for block in pages.blocks(PAGE, "python") if not block.startswith(ELASTIC)))
    weights = re.findall(r"weights (\S+)", pages.launch(script, ranks=2))
    assert len(weights) == 2
    assert weights[0] == weights[1]


@pytest.mark.slow
def test_the_elastic_job_runs_as_the_page_says(tmp_path: Path) -> None:
    (script,) = (block for block in pages.blocks(PAGE, "python") if block.startswith(ELASTIC))
    (tmp_path / "train.py").write_text(script)
    (command,) = (block for block in pages.blocks(PAGE, "bash") if "--elastic" in block)
    printed = pages.run(["bash", "-euc", command], tmp_path)
    for rank in range(3):
        assert f"rank {rank} of 3 ends after step 60" in printed


def test_the_table_has_the_presets() -> None:
    text = (pages.ROOT / PAGE).read_text()
    rows = re.findall(r'^\| `"(\w+)"` \| (\S+) \| (\S+) \| (\S+) \| (\S+) \|', text, re.MULTILINE)
    listed = {name: tuple(map(float, numbers)) for name, *numbers in rows}
    assert listed == {
        name: (each.sync_every, each.fragments, each.overlap_steps, each.mix) for name, each in PRESETS.items()
    }
