# SPDX-License-Identifier: Apache-2.0
"""The guide's page on elastic jobs: its script runs, its loop with a sampler, too, and its table lists the options."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from hipress.launch.elastic.launcher import ElasticOptions
from tests.docs import pages

PAGE = "docs/guide/elastic.md"
#: What the page's second script needs of the first.
PREPARATION = """
import torch
import hipress.torch as hp
hp.init()
dataset = torch.randn(48, 30)
model = torch.nn.Linear(30, 1)
optimizer = hp.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters(), codec="int8")
"""
CHECK = """
print(f"rank {hp.rank()} has seen {state.epoch} epochs")
"""


@pytest.mark.slow
def test_the_first_script_runs_as_the_page_says(tmp_path: Path) -> None:
    script, *_ = pages.blocks(PAGE, "python")
    (tmp_path / "train.py").write_text(script)
    (command,) = pages.blocks(PAGE, "bash")
    printed = pages.run(["bash", "-euc", command], tmp_path)
    for rank in range(2):
        assert f"rank {rank} of 2 ends after step 60" in printed


@pytest.mark.slow
def test_the_loop_with_a_sampler(tmp_path: Path) -> None:
    _, loop, _ = pages.blocks(PAGE, "python")
    (tmp_path / "train.py").write_text(PREPARATION + loop + CHECK)
    printed = pages.run(["bash", "-euc", "hipress run --elastic -np 2 python train.py"], tmp_path)
    for rank in range(2):
        assert f"rank {rank} has seen 2 epochs" in printed


def test_the_table_has_the_options_and_their_defaults() -> None:
    rows = dict(re.findall(r"^\| `(--?[\w-]+)` \| ([^|]*) \|", (pages.ROOT / PAGE).read_text(), re.MULTILINE))
    options = ElasticOptions(1, 2)
    assert rows["--min-np"] == str(options.least)
    assert float(rows["--elastic-timeout"]) == options.timeout
    assert int(rows["--restarts"]) == options.restarts
    shown = subprocess.run(
        [sys.executable, "-m", "hipress.cli", "run", "--help"], capture_output=True, text=True, check=True
    ).stdout
    assert [option for option in rows if option not in shown] == []
