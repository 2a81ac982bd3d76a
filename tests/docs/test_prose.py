# SPDX-License-Identifier: Apache-2.0
"""The prose linter finds each kind of bad sentence, and ignores code and quotations."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs import pages

sys.path.insert(0, str(pages.ROOT))
from docs.prose import lint, rules


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The engine waits… then it sends.", "waits…"),
        ("The engine waits...", "waits..."),
        ("It keeps those that were lost.", "those that"),
        ("Whoever calls it waits.", "Whoever"),
        ("What is sent is smaller.", "What is sent"),
        ("In order to send, it encodes.", "In order to"),
        ("word " * 46 + ".", "word"),
    ],
)
def test_a_broken_rule_is_found(text: str, words: str) -> None:
    found = list(rules.complaints(text))
    assert len(found) == 1
    assert words in found[0][0]


@pytest.mark.parametrize(
    "text",
    [
        "Call `init(trace=...)` first.",
        "```\nthose that\n```",
        "The ranks 0, 1, … of a host",
        "It waits; " * 20,
        "[a link](what-is-sent.md)",
        "short lines\n" * 40,
    ],
)
def test_code_lists_and_short_sentences_are_left_alone(text: str) -> None:
    assert list(rules.complaints(text)) == []


def test_docstrings_errors_and_help_are_read(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(
        '"""Whoever reads this."""\n\n\ndef f(x=option(help="for those that are there")):\n'
        '    raise ValueError("it is wrong in order to fail")\n    y = "whoever is quoted here"\n'
    )
    found = [words for _, text in lint.texts(file) for words, _ in rules.complaints(text)]
    assert len(found) == 3


def test_the_linter_names_the_file_and_the_words(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Whoever reads this.\n")
    done = subprocess.run([sys.executable, lint.__file__, str(page)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout.startswith(f"{page}:1: 'Whoever")
    page.write_text("A user reads this.\n")
    assert subprocess.run([sys.executable, lint.__file__, str(page)], check=False).returncode == 0
