# SPDX-License-Identifier: Apache-2.0
"""The guide's page on DDP and FSDP2: its blocks run one after the other, as one script."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.docs import pages

pytestmark = pytest.mark.slow

PAGE = "docs/guide/pytorch.md"


@pytest.mark.thorough
def test_the_python_blocks_run_under_torchrun(tmp_path: Path) -> None:
    ranks = 4  # two meshes of two
    script = tmp_path / "train.py"
    script.write_text("\n".join(pages.blocks(PAGE, "python")) + "\nprint('reached the end')\n")
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        str(ranks),
        str(script),
    ]
    assert pages.run(command, tmp_path).count("reached the end") == ranks


def test_the_first_script_runs_under_hipress_run(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(pages.blocks(PAGE, "python")[0] + "print('reached the end')\n")
    assert pages.launch(script, 2).count("reached the end") == 2
