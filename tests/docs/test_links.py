# SPDX-License-Identifier: Apache-2.0
"""All links between the pages lead to existing files and to existing headings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs import pages

PAGES = [
    pages.ROOT / "CHANGELOG.md",
    pages.ROOT / "CONTRIBUTING.md",
    pages.ROOT / "README.md",
    pages.ROOT / "benchmarks" / "README.md",
    pages.ROOT / "examples" / "README.md",
    *sorted((pages.ROOT / "docs").rglob("*.md")),
]
_CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)")


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub makes from a page's headings."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    plain = (re.sub(r"[`*]|\]\(.*?\)", "", heading) for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(pages.ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    wrong = []
    for target, anchor in _LINK.findall(_CODE.sub(" ", page.read_text())):
        file = page.parent / target if target else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            wrong.append(f"{target}#{anchor}" if anchor else target)
    assert not wrong
