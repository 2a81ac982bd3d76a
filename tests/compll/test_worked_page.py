# SPDX-License-Identifier: Apache-2.0
"""docs/extending/worked-codecs.md: its commands print the page's outputs, before and after the page's changes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hipress.compll.cli import app
from tests.docs import pages

PAGE = "docs/extending/worked-codecs.md"
TEXT = (pages.ROOT / PAGE).read_text()
_PARTS = re.compile(
    r"Save it as `(?P<file>\w+\.cll)`"
    r"|replace\s+`(?P<old>[^`]+)`\s+by\s+`(?P<new>[^`]+)`"
    r"|^```(?P<language>\w+)\n(?P<block>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


def said_and_printed(folder: Path) -> Iterator[tuple[str, str, str]]:
    """For each command of the page: the command, the page's output and the real output; `folder` has the page's
    files."""
    name, command = "", ""
    for part in _PARTS.finditer(TEXT):
        if part["file"]:
            name = part["file"]
        elif part["old"]:
            program = (folder / name).read_text()
            assert program.count(part["old"]) == 1, f"{name} does not have {part['old']} once"
            (folder / name).write_text(program.replace(part["old"], part["new"]))
        elif part["language"] == "cpp":
            (folder / name).write_text(part["block"])
        elif part["language"] == "bash":
            command = part["block"].strip()
        elif part["language"] == "text":
            yield command, part["block"], printed(command)


def printed(command: str) -> str:
    words = shlex.split(command)
    assert words[:2] == ["hipress", "compll"], command
    done = CliRunner().invoke(app, words[2:])
    assert done.exit_code == 0, done.output
    return done.output


def test_the_commands_print_what_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    compared = 0
    for command, said, got in said_and_printed(tmp_path):
        assert got == said, command
        compared += 1
    assert compared == len(pages.blocks(PAGE, "text")) == len(pages.blocks(PAGE, "bash"))
    assert compared > len(pages.blocks(PAGE, "cpp")) >= 5
    # The page's text names commands without showing their output.
    for command in re.findall(r"`(hipress compll try \w[^`]+\d)`", TEXT):
        assert "message" in printed(command)


def test_it_names_the_number_of_its_codecs() -> None:
    numbers = ("Four", "Five", "Six", "Seven", "Eight")
    (said,) = re.findall(r"^(\w+) small codecs", TEXT, re.MULTILINE)
    assert numbers.index(said) + 4 == len(pages.blocks(PAGE, "cpp"))
