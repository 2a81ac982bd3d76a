# SPDX-License-Identifier: Apache-2.0
"""The files of the repository that Git tracks."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@cache
def _all() -> tuple[str, ...]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip("not a clone of the repository")
    return tuple(file for file in done.stdout.splitlines() if (ROOT / file).is_file())


def tracked(*endings: str) -> list[str]:
    """The paths of the tracked files whose name has one of these endings; without endings, the paths of all tracked
    files."""
    return [file for file in _all() if not endings or file.endswith(endings)]
