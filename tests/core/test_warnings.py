# SPDX-License-Identifier: Apache-2.0
"""A compiler's warning is an error in our builds, but not in a user's build, because a newer compiler has new
warnings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("options", "errors"), [([], False), (["-DHIPRESS_WERROR=ON"], True)])
def test_warnings_are_errors_only_where_asked_for(tmp_path: Path, options: list[str], errors: bool) -> None:
    tools = Path(sys.executable).parent
    without = [f"-DHIPRESS_BUILD_{part}=OFF" for part in ("PYTHON", "TORCH", "TENSORFLOW", "MXNET")]
    generator = ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={tools / 'ninja'}", f"-DPython_EXECUTABLE={sys.executable}"]
    configure = [str(tools / "cmake"), "-S", str(ROOT), "-B", str(tmp_path), *generator, *without, *options]
    done = subprocess.run(configure, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    commands = [entry["command"] for entry in json.loads((tmp_path / "compile_commands.json").read_text())]
    assert commands
    assert all("-Wall" in command and ("-Werror" in command) == errors for command in commands)


@pytest.mark.parametrize("target", ["wheel", "test-gpu", "sanitize"])
def test_our_builds_ask_for_it(target: str) -> None:
    outside = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    commands = ["make", "--dry-run", "--always-make", target]
    done = subprocess.run(commands, cwd=ROOT, env=outside, capture_output=True, text=True, check=True)
    assert "HIPRESS_WERROR=ON" in done.stdout
