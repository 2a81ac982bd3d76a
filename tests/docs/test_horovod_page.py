# SPDX-License-Identifier: Apache-2.0
"""The guide for those who come from Horovod: its script runs by its command, and with its other optimizer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs import pages

PAGE = "docs/guide/horovod.md"
SCRIPT, OPTIMIZER = pages.blocks(PAGE, "python")
(COMMAND,) = pages.blocks(PAGE, "bash")


def with_the_other_optimizer() -> str:
    begin = SCRIPT.index("optimizer = hvd.DistributedOptimizer(")
    end = SCRIPT.index("\n)\n", begin) + len("\n)\n")
    return SCRIPT[:begin] + OPTIMIZER + SCRIPT[end:]


@pytest.mark.parametrize("script", [SCRIPT, with_the_other_optimizer()], ids=["fp16", "onebit"])
def test_the_script(tmp_path: Path, script: str) -> None:
    (tmp_path / "train.py").write_text(script)
    printed = pages.run(["bash", "-euc", COMMAND], tmp_path)
    assert "2 ranks, loss " in printed
