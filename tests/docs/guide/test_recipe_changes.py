# SPDX-License-Identifier: Apache-2.0
"""The diffs on the recipes' pages change few lines, and their scripts have these lines."""

from __future__ import annotations

import pytest

from tests.docs import pages

PAGES = ["lightning", "accelerate", "hugging-face-trainer", "torchft"]


@pytest.mark.parametrize("page", PAGES)
def test_a_script_changes_by_three_lines_at_most(page: str) -> None:
    (changes,) = pages.blocks(f"docs/guide/{page}.md", "diff")
    added = [line[1:] for line in changes.splitlines() if line.startswith("+")]
    assert 2 <= len(added) <= 3
    script = pages.blocks(f"docs/guide/{page}.md", "python")[0]
    ours = [line for line in added if "hipress" in line]
    assert len(ours) == 1
    assert ours[0] in script.splitlines()
    for code in ("\n".join(added), "\n".join(line[1:] for line in changes.splitlines() if line[:1] != "+")):
        compile(code, page, "exec")


@pytest.mark.parametrize("page", PAGES)
def test_the_whole_script_has_nothing_else_of_hipress(page: str) -> None:
    script = pages.blocks(f"docs/guide/{page}.md", "python")[0]
    assert script.count("hipress") == 1
