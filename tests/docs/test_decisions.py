# SPDX-License-Identifier: Apache-2.0
"""docs/decisions: each page has its number, its four parts and its line in the list of decisions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs import pages

FOLDER = pages.ROOT / "docs" / "decisions"
DECISIONS = sorted(page for page in FOLDER.glob("*.md") if page.name != "README.md")
PARTS = ["Context", "Decision", "Measured", "Consequences"]


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.name)
def test_a_decision_is_one_page_with_its_four_parts(page: Path) -> None:
    text = page.read_text()
    number = page.name.partition("-")[0]
    assert re.match(rf"# {number}\. \S", text)
    assert re.findall(r"^(?:\*\*|## )(\w+)", text, re.MULTILINE) == PARTS
    assert len(text.splitlines()) <= 60


def test_the_list_has_every_decision_once() -> None:
    listed = re.findall(r"^\| (\d{3}) \| \[(.*)\]\((.*)\) \|$", (FOLDER / "README.md").read_text(), re.MULTILINE)
    expected = []
    for page in DECISIONS:
        number, _, title = page.read_text().splitlines()[0].removeprefix("# ").partition(". ")
        expected.append((number, title, page.name))
    assert listed == expected
    assert len({number for number, _, _ in listed}) == len(listed)
