# SPDX-License-Identifier: Apache-2.0
"""The examples are short, and their page lists each of them."""

from __future__ import annotations

import re

from tests.docs import pages

EXAMPLES = pages.ROOT / "examples"
PROGRAMS = sorted(file for file in EXAMPLES.rglob("*") if file.suffix in (".py", ".cll", ".ipynb"))
#: Modules that the example programs import; they do nothing by themselves.
PARTS = {"torch/image_folder.py", "digits_training.py"}


def test_the_page_lists_every_program() -> None:
    listed = set(re.findall(r"\]\(([\w/]+\.\w+)\)", (EXAMPLES / "README.md").read_text()))
    assert listed | PARTS >= {program.relative_to(EXAMPLES).as_posix() for program in PROGRAMS}


def test_a_program_is_short() -> None:
    lengths = {program: len(program.read_text().splitlines()) for program in PROGRAMS if program.suffix != ".ipynb"}
    assert {program.name: length for program, length in lengths.items() if length > 150} == {}
