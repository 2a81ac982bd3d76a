# SPDX-License-Identifier: Apache-2.0
"""docs/guide/tutorial.md: a reader who follows the page gets outputs like its outputs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs import pages

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

PAGE = "docs/guide/tutorial.md"
#: Replacements that shorten the training: they change only the figures of the outputs.
SHORTER = (("range(100)", "range(12)"), ("2048", "256"), ("--seconds 5", "--seconds 1"))
#: Beginnings of lines whose words depend on the figures.
_ANSWERS = ("Compression", "Sequential", "4 hosts:")


def likeness(line: str) -> str:
    """A line without its figures, units and alignment."""
    return re.sub(r"[-\d.]+|\b(?:[mµ]?s|[KM]iB|B)\b|[\s┏━┳┓┡╇┩├─┼┤└┴┘*]+", " ", line).strip()


def checked(said: str, printed: str) -> None:
    """Checks that every line of the page has a similar line in the output; of a table only the headings count."""
    like = {likeness(re.sub(r"^\[\d+\] ", "", line)) for line in printed.splitlines()}
    for line in said.splitlines():
        wanted = likeness(re.sub(r"^\[\d+\] ", "", line))
        if "┃" in line or ("│" not in line and not line.startswith(_ANSWERS)):
            assert wanted in like, f"{line!r} has no similar line in:\n{printed}"


@pytest.mark.thorough
def test_its_commands_in_its_order_print_what_it_shows(tmp_path: Path) -> None:
    printed, compared = "", 0
    for language, block in pages.all_blocks(PAGE):
        for long, short in SHORTER:
            block = block.replace(long, short)
        if language == "python":
            (tmp_path / block.split("\n", 1)[0].removeprefix("# ")).write_text(block)
        elif language == "bash":
            printed = pages.run(["bash", "-euc", block], tmp_path, timeout=300.0)
        elif language == "text":
            checked(block, printed)
            compared += 1
    assert compared == 6
    # The page ends with a plan for two ranks, and a training that followed it.
    assert "plan.json" in printed
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")
