# SPDX-License-Identifier: Apache-2.0
"""The table of element types in the guide says what happens."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.torch.ranks import run
from tests.torch.types import element_types

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[3] / "docs" / "guide" / "element-types.md"
BEGIN, END = "<!-- element types of torch (tests/torch/types) -->\n", "<!-- element types: end -->\n"


def test_every_way_in_is_right_or_refuses_each_type_by_name(tmp_path: Path) -> None:
    """To change the table, copy the lines that the failing test shows into the page."""
    first, second = run(element_types.all_outcomes, 2, str(tmp_path))
    assert first == second
    header, *rows = element_types.rows_of(first)
    lines = [header, ["---"] * len(header), *rows]
    table = "".join(f"| {' | '.join(cells)} |\n".replace("|  |", "| |") for cells in lines)
    written = PAGE.read_text().partition(BEGIN)[2].partition(END)[0]
    assert written == table
