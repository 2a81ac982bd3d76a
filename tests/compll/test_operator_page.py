# SPDX-License-Identifier: Apache-2.0
"""docs/extending/operator.md: its steps, followed in a copy of the package, add an operator to the language."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from textwrap import indent

import pytest

import hipress
from tests.docs import pages

PAGE = "docs/extending/operator.md"
TEXT = (pages.ROOT / PAGE).read_text()
PACKAGE = Path(hipress.__file__).parent


def installed(folder: Path) -> Path:
    """The folder of a package with a copy of the compiler; all other parts are links to the installed package."""
    package = folder / "site" / "hipress"
    package.mkdir(parents=True)
    for entry in PACKAGE.iterdir():
        if entry.name != "compll":
            (package / entry.name).symlink_to(entry)
    shutil.copytree(PACKAGE / "compll", package / "compll", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "site" / "libucx").symlink_to(PACKAGE.parent / "libucx")  # the libraries look for it there
    return folder / "site"


def add_row(table: Path, module: str, row: str) -> None:
    text = table.read_text()
    for place, added in (
        ("    gather,\n", f"    {module},\n"),
        ("\n)\n\ninstall(TABLE)", f"\n{indent(row.rstrip(), '    ')},"),
    ):
        assert text.count(place) == 1, place
        text = text.replace(place, added + place)
    table.write_text(text)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.thorough
def test_the_steps_add_an_operator(tmp_path: Path) -> None:
    site = installed(tmp_path)
    operator, row, test = pages.blocks(PAGE, "python")
    saved, tested = (Path(name) for name in re.findall(r"^`?(?:Save this as )?`?(\S+/\w+\.py)`:$", TEXT, re.MULTILINE))
    operators = site / "hipress" / "compll" / "operators"
    (operators / saved.name).write_text(operator)
    add_row(operators / "table.py", saved.stem, row)
    (tmp_path / tested.name).write_text(test)
    variables = {"PYTHONPATH": f"{site}:{pages.ROOT}", "PYTHONDONTWRITEBYTECODE": "1", "PYTEST_ADDOPTS": ""}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), tested.name]
    assert re.search(r"^3 passed", pages.run(command, tmp_path, 500, variables=variables), re.MULTILINE)


def test_the_row_for_the_reference_names_the_operator() -> None:
    (row,) = pages.blocks(PAGE, "markdown")
    assert re.match(r"\| `gaps\(index\)` \|", row)


def test_its_commands_name_tests_that_exist() -> None:
    commands = "".join(pages.blocks(PAGE, "bash"))
    paths = re.findall(r"tests/\S+", commands)
    assert paths
    assert all((pages.ROOT / path).exists() for path in paths)


def test_its_links_lead_somewhere() -> None:
    prose = re.sub(r"^```.*?^```$", "", TEXT, flags=re.MULTILINE | re.DOTALL)
    for link in re.findall(r"\]\(([^)#:]+)\)", prose):
        assert ((pages.ROOT / PAGE).parent / link).exists(), link
