# SPDX-License-Identifier: Apache-2.0
"""docs/architecture.md: its table has every source folder and every dependency, and its walk visits existing files."""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs import pages

PAGE = pages.ROOT / "docs" / "architecture.md"
#: The table has every folder below these that contains source files.
ROOTS = ("core", "compll", "secopa", "bindings", "frameworks", "benchmarks", "examples")
SOURCE = {".py", ".cc", ".h", ".cu", ".cll", ".lark"}
#: By folder of the repository: the folder of the Python package.
PACKAGES = {
    "bindings/python": "hipress",
    "compll/python": "hipress.compll",
    "secopa/python": "hipress.secopa",
    "frameworks/torch/python": "hipress.torch",
    "frameworks/tensorflow/python": "hipress.tensorflow",
    "frameworks/mxnet/python": "hipress.mxnet",
}
MOST_LINES = 250
MOST_FILES = 18
_INCLUDE = re.compile(r'^#include "((?:core|bindings|frameworks)/[^"]+)"', re.MULTILINE)


def named(cell: str, root: str) -> list[str]:
    """The folders that a table cell names, either relative to the heading's folder or to the repository."""
    folders = []
    for name in re.findall(r"`([^`]+)`", cell):
        relative = (Path(root) / name).as_posix()
        folders.append(relative if (pages.ROOT / relative).is_dir() else name)
    return folders


def rows() -> Iterator[tuple[list[str], list[str]]]:
    """For each row of the table: its folders, and the folders on which they may depend."""
    root = ""
    for line in PAGE.read_text().splitlines():
        if heading := re.match(r"### (\S+)/$", line):
            root = heading.group(1)
        elif line.startswith("## "):
            root = ""
        elif root and line.startswith("| `"):
            cells = line.strip("|").split("|")
            yield named(cells[0], root), named(cells[2], root)


TABLE = list(rows())


def row_of(folder: str) -> tuple[list[str], list[str]] | None:
    return next((row for row in TABLE if folder in row[0]), None)


def sources(*roots: str) -> Iterator[Path]:
    for root in roots:
        for file in sorted((pages.ROOT / root).rglob("*")):
            relative = file.relative_to(pages.ROOT)
            if file.suffix in SOURCE and "__pycache__" not in relative.parts:
                yield relative


def included(file: Path) -> set[str]:
    """The folders of the files that a C++ file includes."""
    return {Path(other).parent.as_posix() for other in _INCLUDE.findall((pages.ROOT / file).read_text())}


def modules() -> dict[str, str]:
    """The folder of each module of the package."""
    found = {}
    for root, package in PACKAGES.items():
        for file in (pages.ROOT / root).rglob("*.py"):
            parts = [part for part in file.relative_to(pages.ROOT / root).with_suffix("").parts if part != "__init__"]
            found[".".join([package, *parts])] = file.parent.relative_to(pages.ROOT).as_posix()
    return found


MODULES = modules()


def imported(file: Path) -> set[str]:
    """The folders of the modules that a Python file imports."""
    folders = set()
    for statement in ast.walk(ast.parse((pages.ROOT / file).read_text())):
        if isinstance(statement, ast.Import):
            names = [alias.name for alias in statement.names]
        elif isinstance(statement, ast.ImportFrom) and statement.module:
            names = [f"{statement.module}.{alias.name}" for alias in statement.names]
            names = [name if name in MODULES else statement.module for name in names]
        else:
            continue
        folders |= {MODULES[name] for name in names if name in MODULES}
    return folders


def wrong_arrows(files: Iterator[Path]) -> set[str]:
    wrong = set()
    for file in files:
        folder = file.parent.as_posix()
        row = row_of(folder)
        if row is None:
            continue  # test_the_table_has_every_source_folder reports it
        own, known = row
        others = imported(file) if file.suffix == ".py" else included(file)
        for other in others - set(own):
            above = {other, *(parent.as_posix() for parent in Path(other).parents)}
            together = row_of(other)
            allowed = {*known, *(together[0] if together and set(together[0]) & set(known) else ())}
            if not above & allowed:
                wrong.add(f"{folder} -> {other}")
    return wrong


def test_the_table_names_folders_that_exist() -> None:
    assert len(TABLE) > 30
    missing = [name for own, known in TABLE for name in (*own, *known) if not (pages.ROOT / name).is_dir()]
    assert not missing


def test_the_table_has_every_source_folder() -> None:
    folders = {file.parent.as_posix() for file in sources(*ROOTS)}
    missing = sorted(folder for folder in folders if row_of(folder) is None)
    assert not missing


@pytest.mark.parametrize("root", ["core", "compll", "secopa", "bindings", "frameworks"])
def test_no_folder_knows_more_than_the_table_allows(root: str) -> None:
    assert wrong_arrows(sources(root)) == set()


@pytest.mark.parametrize(
    ("file", "other"),
    [
        ("core/codec/codec.cc", "core/casync/run"),
        ("core/casync/graph/topology.cc", "core/casync/run"),
        ("core/casync/send/link_queue.cc", "core/casync/compute"),
        ("core/base/time.h", "bindings/module"),
        ("core/transport/mailbox.cc", "core/casync/send"),
    ],
)
def test_an_include_against_the_table_is_found(monkeypatch: pytest.MonkeyPatch, file: str, other: str) -> None:
    monkeypatch.setattr(sys.modules[__name__], "included", lambda _: {other})
    assert wrong_arrows(iter([Path(file)])) == {f"{Path(file).parent.as_posix()} -> {other}"}


def walk() -> list[tuple[str, str]]:
    """The files of the walk's two tables. The number is the position of a file at its first visit, and empty later."""
    text = PAGE.read_text()
    tables = text[text.index("### The walk out") : text.index("The aggregator's *merge*")]
    lines = re.findall(r"^\| (\d*) ?\| (\[.*?) \|", tables, re.MULTILINE)
    return [(number, file) for number, cell in lines for file in re.findall(r"\]\(\.\./([^)]+)\)", cell)]


def test_the_walk_visits_few_files_and_none_often() -> None:
    visited = [file for _, file in walk()]
    assert len(visited) > 15
    assert not [file for file in visited if not (pages.ROOT / file).is_file()]
    assert max(Counter(visited).values()) <= 2
    assert len(set(visited)) <= MOST_FILES
    numbers = [int(number) for number, _ in walk() if number]
    assert numbers == list(range(1, len(set(visited)) + 1))


def test_the_page_is_short_and_has_three_diagrams() -> None:
    assert len(PAGE.read_text().splitlines()) <= MOST_LINES
    assert len(pages.blocks("docs/architecture.md", "mermaid")) == 3


def test_the_tests_of_the_invariants_exist() -> None:
    named_tests = re.findall(r"`(tests/[^`]+)`", (pages.ROOT / "docs" / "invariants.md").read_text())
    assert len(named_tests) > 30
    assert not [name for name in named_tests if not (pages.ROOT / name).exists()]
