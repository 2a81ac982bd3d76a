# SPDX-License-Identifier: Apache-2.0
"""README: its example runs, its numbers are those of the last recorded demo, its links lead somewhere."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from tests.docs import pages

PAGES = (
    "README.md",
    "docs/guide/training.md",
    "docs/architecture.md",
    "docs/algorithms.md",
    "docs/benchmarks.md",
    "docs/wire-format.md",
    "docs/extending/topology.md",
)


def test_the_example_is_short_and_runs_on_two_ranks(tmp_path: Path) -> None:
    (example,) = pages.blocks("README.md", "python")
    assert len(example.splitlines()) <= 15
    script = tmp_path / "train.py"
    # Replicas that differ at the end would mean that the example synchronises nothing.
    script.write_text(
        example + "total = sum(p.double().sum() for p in model.parameters()).item()\nprint('weights', total)\n"
    )
    weights = re.findall(r"weights (\S+)", pages.launch(script, ranks=2))
    assert len(weights) == 2
    assert weights[0] == weights[1]


def test_the_numbers_are_those_of_the_recorded_demo() -> None:
    pages.run([sys.executable, "docs/update_figures.py", "--check"], pages.ROOT)


def test_the_recorded_demo_keeps_its_promises() -> None:
    plain, *others = json.loads((pages.ROOT / "docs/images/digits.json").read_text())["runs"]
    assert plain["codec"] == "none"
    assert plain["test_accuracy"] >= 0.96
    assert [run["codec"] for run in others] == ["fp16", "onebit", "tbq", "terngrad", "dgc", "graddrop"]
    for run in others:
        assert run["test_accuracy"] >= plain["test_accuracy"] - 0.015


@pytest.mark.parametrize("page", PAGES)
def test_local_links_lead_somewhere(page: str) -> None:
    file = pages.ROOT / page
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", file.read_text())
    assert targets
    missing = [target for target in targets if not (file.parent / target).exists()]
    assert not missing
