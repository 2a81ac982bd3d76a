# SPDX-License-Identifier: Apache-2.0
"""The guide's page on watching: its script runs on two ranks as printed, and writes what the page says."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from tests.docs import pages

PAGE = "docs/guide/pytorch/watching.md"


@pytest.mark.slow
def test_the_script_runs_on_two_ranks(tmp_path: Path) -> None:
    train, writers = pages.blocks(PAGE, "python")
    script = tmp_path / "train.py"
    script.write_text(train.replace('"metrics.csv"', repr(str(tmp_path / "metrics.csv"))))
    found = re.findall(r"step (\d+), error (\S+)", pages.launch(script, ranks=2))
    assert len(found) == 2
    assert found[0] == found[1]
    assert found[0][0] == "40"
    assert 0 < float(found[0][1]) < 0.1
    with (tmp_path / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {(row["step"], row["gradient"]) for row in rows} == {("40", ""), ("40", "0.weight"), ("40", "2.weight")}
    names: dict[str, object] = {}
    exec(writers, names)  # the page's own text
    assert len(names["writers"]) == 3  # type: ignore[arg-type]
