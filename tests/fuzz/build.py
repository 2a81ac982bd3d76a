# SPDX-License-Identifier: Apache-2.0
"""Builds the C++ fuzzers for `make fuzz` in build/fuzz/tree: python -m tests.fuzz.build"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from hipress import _core

ROOT = Path(__file__).parents[2]
TREE = ROOT / "build" / "fuzz" / "tree"
#: For short runs: fuzzed code without optimisation compiles in a third of the time; one level saves a fifth more.
QUICK_TREE = ROOT / "build" / "fuzz" / "quick"


def build(tree: Path = TREE) -> Path:
    """Compiles the changed files only. Returns the directory of the executables."""
    here = Path(sys.executable).parent
    environment = os.environ | {"PATH": f"{here}{os.pathsep}{os.environ['PATH']}"}
    configure = ["cmake", "-G", "Ninja", "-S", str(Path(__file__).parent), "-B", str(tree), "--log-level=WARNING"]
    options = [f"-DPython_EXECUTABLE={sys.executable}"]
    if tree == QUICK_TREE:
        level = len(_core.isa_levels()) - 1
        options += ["-DHIPRESS_FUZZ_OPTIMISATION=-O0", f"-DHIPRESS_COMPILED_LEVEL={level}"]
    else:
        options.append("-UHIPRESS_COMPILED_LEVEL")  # a tree of an older version has one level in its cache
    for command in ([*configure, *options], ["cmake", "--build", str(tree)]):
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return tree


if __name__ == "__main__":
    print(build())
