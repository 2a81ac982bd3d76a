# SPDX-License-Identifier: Apache-2.0
"""The guide for users of Horovod: its command runs its script, also with its second optimizer."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.docs import pages
from tests.tiers import thorough

PAGE = "docs/guide/horovod.md"
SCRIPT, OPTIMIZER, SETS, BATCHES = pages.blocks(PAGE, "python")
(COMMAND,) = pages.blocks(PAGE, "bash")
#: The options of horovodrun. tests/frameworks/test_horovod_names.py tests the names of Horovod's modules.
OPTIONS: dict[str, dict[str, Any]] = json.loads((pages.ROOT / "docs" / "horovod_names.json").read_text())["horovodrun"]
HIPRESS = str(Path(sys.executable).with_name("hipress"))


def with_the_other_optimizer() -> str:
    begin = SCRIPT.index("optimizer = hvd.DistributedOptimizer(")
    end = SCRIPT.index("\n)\n", begin) + len("\n)\n")
    return SCRIPT[:begin] + OPTIMIZER + SCRIPT[end:]


@pytest.mark.slow
@pytest.mark.parametrize("script", [thorough(SCRIPT), with_the_other_optimizer()], ids=["fp16", "onebit"])
def test_the_script(tmp_path: Path, script: str) -> None:
    (tmp_path / "train.py").write_text(script)
    printed = pages.run(["bash", "-euc", COMMAND], tmp_path)
    assert "2 ranks, loss " in printed


#: What the lines about process sets need before them and show after them.
BEFORE_SETS = """
import torch
import hipress.horovod.torch as hvd
hvd.init()
tensor = torch.full((3,), float(hvd.rank()))
model = torch.nn.Linear(50, 50)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
AFTER_SETS = """
model(tensor[:1].expand(2, 50)).sum().backward()
optimizer.step()
print("average", average[0].item(), "weight", model.weight.grad[0, 0].item())
"""


@pytest.mark.slow
def test_the_lines_about_process_sets(tmp_path: Path) -> None:
    (tmp_path / "sets.py").write_text(BEFORE_SETS + SETS + AFTER_SETS)
    printed = pages.run([HIPRESS, "run", "-np", "4", sys.executable, "sets.py"], tmp_path)
    assert printed.count("average 1.0 weight 2.0") == 2  # of ranks 0 and 2
    assert printed.count("average 2.0 weight 4.0") == 2


#: What the lines about ranks with fewer batches need before them and show after them.
BEFORE_BATCHES = """
import torch
import hipress.horovod.torch as hvd
hvd.init()
torch.manual_seed(1)
model = torch.nn.Linear(3, 1)
loss = torch.nn.functional.mse_loss
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
batches = [(torch.ones(2, 3), torch.ones(2, 1))] * (1 + 2 * hvd.rank())
"""
AFTER_BATCHES = """
print("last", last, "weight", round(model.weight.sum().item(), 5))
"""


@pytest.mark.slow
def test_the_lines_about_ranks_with_fewer_batches(tmp_path: Path) -> None:
    (tmp_path / "join.py").write_text(BEFORE_BATCHES + BATCHES + AFTER_BATCHES)
    printed = pages.run([HIPRESS, "run", "-np", "2", sys.executable, "join.py"], tmp_path)
    said = re.findall(r"last 1 weight (\S+)", printed)
    assert len(said) == 2
    assert said[0] == said[1]


def test_the_tables_are_in_step_with_the_names() -> None:
    pages.run([sys.executable, "docs/update_horovod.py", "--check"], pages.ROOT)


def takes(option: str) -> bool:
    """Whether `hipress run` knows the option. An unknown option is an error even before --help."""
    value = [] if option in ("--gloo", "--mpi", "--check-build") else ["2"]
    done = subprocess.run([HIPRESS, "run", option, *value, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0 or "No such option" in done.stderr
    return done.returncode == 0


@pytest.mark.parametrize("option", OPTIONS)
def test_the_launcher_takes_the_options_that_are_the_same(option: str) -> None:
    assert takes(option) == (OPTIONS[option]["is"] == "same")


@pytest.mark.parametrize("option", [option for option, row in OPTIONS.items() if row["is"] == "differs"])
def test_what_stands_for_another_option_is_there(option: str) -> None:
    named = re.findall(r"`([^`]+)`", OPTIONS[option]["why"])
    assert named
    for each in named:
        if each.startswith("-"):
            assert takes(each)
        elif each.startswith("HIPRESS_"):
            assert each in (pages.ROOT / "bindings" / "python" / "runtime.py").read_text()
        else:
            pages.run([HIPRESS, *each.split()[1:], "--help"], pages.ROOT)
