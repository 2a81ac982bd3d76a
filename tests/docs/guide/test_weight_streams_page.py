# SPDX-License-Identifier: Apache-2.0
"""The guide's page on weight streams: its scripts run one after the other, and its table lists the arguments."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from hipress.torch import WeightStream
from tests.docs import pages

PAGE = "docs/guide/weight-streams.md"


@pytest.mark.slow
@pytest.mark.thorough
def test_the_evaluator_gets_what_the_trainer_published(tmp_path: Path) -> None:
    for text in pages.blocks(PAGE, "python"):
        named = re.match(r"# (\w+\.py)\n", text)
        assert named is not None
        (tmp_path / named[1]).write_text(text)
    (commands,) = pages.blocks(PAGE, "bash")
    printed = pages.run(["bash", "-euc", commands], tmp_path)
    assert "evaluating version 5" in printed
    assert "000000000005.weights" in printed


def test_the_table_has_the_arguments_and_their_defaults() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\d+) \|", (pages.ROOT / PAGE).read_text(), re.MULTILINE)
    parameters = inspect.signature(WeightStream).parameters
    assert {name: int(default) for name, default in rows} == {
        name: each.default for name, each in parameters.items() if each.kind is each.KEYWORD_ONLY
    }
