# SPDX-License-Identifier: Apache-2.0
"""The guide for training: every block of code in it runs, and its tables are complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hipress import errors
from hipress._library import load_core
from hipress.options.runtime import RUNTIME_OPTIONS
from tests.docs import pages

pytestmark = pytest.mark.slow

PAGE = "docs/guide/training.md"
COMMANDS = pages.blocks(PAGE, "bash")
#: The built-in codecs. Codecs that other tests have loaded have numbers from 1024 on.
BUILTIN = [codec for encode in (True, False) for codec in load_core().describe_codecs(encode) if codec["id"] < 1024]
TEXT = (pages.ROOT / PAGE).read_text()


def test_the_python_blocks_run_one_after_the_other_as_the_page_says(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("\n".join(pages.blocks(PAGE, "python")) + "\nprint('reached the end')\n")
    assert pages.launch(script, ranks=2).count("reached the end") == 2


@pytest.mark.parametrize("command", COMMANDS, ids=[text.strip() for text in COMMANDS])
def test_the_commands_run_beside_the_first_script(tmp_path: Path, command: str) -> None:
    (tmp_path / "train.py").write_text(pages.blocks(PAGE, "python")[0])
    pages.run(["bash", "-euc", command], tmp_path)
    if "HIPRESS_TRACE" in command:
        assert '"backward"' in (tmp_path / "trace.json").read_text()


def rows(heading: str) -> set[str]:
    """The first cells of the table under a heading, if they are in code type."""
    section = re.split(r"^## ", TEXT, flags=re.MULTILINE)
    (text,) = [part for part in section if part.startswith(heading)]
    return set(re.findall(r"^\| `(\w+)", text, flags=re.MULTILINE))


def test_the_tables_are_complete() -> None:
    assert rows("Environment variables") == {each.variable for each in RUNTIME_OPTIONS.values()}
    assert rows("Errors") == set(errors.__all__) - {"HipressError"}
    assert rows("Which codec") == {codec["name"] for codec in BUILTIN}


def test_the_options_are_those_that_the_codecs_have() -> None:
    table = re.findall(r"^\| (`[a-z0-9_`, ]+) \| `(\w+)` \| ([\w.]+) \|", TEXT, flags=re.MULTILINE)
    described = {(name, option, value) for names, option, value in table for name in re.findall(r"\w+", names)}
    keep = {name for name, option, _ in described if option == "error_feedback"} - {"powersgd"}
    shared = re.findall(
        r"^\| all with `error_feedback` but `powersgd` \| `(\w+)` \| ([\w.]+) \|", TEXT, flags=re.MULTILINE
    )
    assert len(shared) == 2
    described |= {(name, option, value) for name in keep for option, value in shared}
    assert described == {
        (codec["name"], option["name"], option["default"]) for codec in BUILTIN for option in codec["options"]
    }
