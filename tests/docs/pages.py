# SPDX-License-Identifier: Apache-2.0
"""Runs the code of pages: finds the blocks of a Markdown file, and gives them an environment like a reader's."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.launch.conftest import clean_environment

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str, language: str) -> list[str]:
    """The code blocks of one language, in the order of the page."""
    return [text for name, text in all_blocks(page) if name == language]


def all_blocks(page: str) -> list[tuple[str, str]]:
    """The languages and texts of all code blocks, in the order of the page."""
    return _BLOCK.findall((ROOT / page).read_text())


def run(
    command: list[str],
    directory: Path,
    timeout: float = 120.0,
    programs: tuple[Path, ...] = (),
    variables: Mapping[str, str] | None = None,
) -> str:
    """Runs a command and returns its output. PATH has this Python's programs (hipress, torchrun, python) first, then
    the programs of the folders `programs`.

    A command that does not end with 0 fails the test, which then shows the output.
    """
    path = [Path(sys.executable).parent, *programs, os.environ.get("PATH", os.defpath)]
    with tempfile.TemporaryFile("w+") as output:
        # A file takes the output: a process that outlives the command would keep a pipe open, and the test would wait
        # for it.
        process = subprocess.Popen(
            command,
            cwd=directory,
            env={**clean_environment(), "PATH": os.pathsep.join(map(str, path)), **(variables or {})},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            ended = f"ended with {process.wait(timeout)}"
        except subprocess.TimeoutExpired:
            ended = f"did not end in {timeout:g} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(0)
        printed = output.read()
    assert ended == "ended with 0", f"{command} {ended}:\n{printed}"
    return printed


def launch(script: Path, ranks: int) -> str:
    """Runs a script with `hipress run` in the script's folder and returns its output."""
    command = [sys.executable, "-m", "hipress.cli", "run", "-np", str(ranks), sys.executable, str(script)]
    return run(command, script.parent)
