# SPDX-License-Identifier: Apache-2.0
"""The README, the documents and the error texts do not use words that docs/glossary.md rules out."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs import pages

GLOSSARY = pages.ROOT / "docs" / "glossary.md"
PAGES = sorted({pages.ROOT / "README.md", *(pages.ROOT / "docs").rglob("*.md")} - {GLOSSARY})
#: Pages on which a ruled-out word is right: "node" is an element of CompLL's typed IR.
MEANT = {"operator.md": {"node", "nodes"}}
PYTHON = ("bindings", "compll", "secopa", "frameworks")
CPP = ("core", "bindings", "frameworks")
#: Parts of a page that are not searched: code, links, comments.
_QUOTED = re.compile(r"```.*?```|`[^`]*`|<!--.*?-->|\]\([^)]*\)", re.DOTALL)
#: A whole string literal of C++, on one line.
_LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')


def ruled_out() -> set[str]:
    """The words in code type in the columns "do not write" of the glossary."""
    words: set[str] = set()
    column = None
    for line in GLOSSARY.read_text().splitlines():
        if not line.startswith("|"):
            column = None
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if "do not write" in cells:
            column = cells.index("do not write")
        elif column is not None:
            words.update(re.findall(r"`([^`]+)`", cells[column]))
    return words


def found(text: str) -> list[str]:
    """The ruled-out words that occur in a text."""
    pattern = r"(?<![\w-])(" + "|".join(re.escape(word) for word in sorted(ruled_out())) + r")(?![\w[(-])"
    return re.findall(pattern, " ".join(text.split()), re.IGNORECASE)


def python_errors(file: Path) -> Iterator[tuple[int, str]]:
    """The lines and texts of all strings in `raise` statements."""
    for statement in ast.walk(ast.parse(file.read_text())):
        if isinstance(statement, ast.Raise) and statement.exc is not None:
            for part in ast.walk(statement.exc):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.lineno, part.value


def cpp_strings(file: Path) -> Iterator[tuple[int, str]]:
    """The lines and texts of all C++ strings, because C++ code often composes an error's text before it throws."""
    for number, line in enumerate(file.read_text().splitlines(), 1):
        if not line.lstrip().startswith(("#", "//")):
            yield from ((number, text) for text in _LITERAL.findall(line))


def test_the_glossary_rules_out_words() -> None:
    assert {"node", "whoever", "volley", "decompress"} <= ruled_out()
    assert found("Every\nNode of the task") == ["Node"]
    assert not found("--nodes, node[3-5], nodelist")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_obeys_the_glossary(page: Path) -> None:
    words = {word.lower() for word in found(_QUOTED.sub(" ", page.read_text()))}
    assert not words - MEANT.get(page.name, set())


def test_error_texts_obey_the_glossary() -> None:
    wrong = []
    for folder in PYTHON:
        for file in (pages.ROOT / folder).rglob("*.py"):
            wrong += [f"{file}:{line}: {words}" for line, text in python_errors(file) if (words := found(text))]
    for folder in CPP:
        for pattern in ("*.cc", "*.h"):
            for file in (pages.ROOT / folder).rglob(pattern):
                wrong += [f"{file}:{line}: {words}" for line, text in cpp_strings(file) if (words := found(text))]
    assert not wrong, "\n".join(wrong)
