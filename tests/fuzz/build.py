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
#: For short runs: generated code without optimisation compiles in a quarter of the time.
QUICK_TREE = ROOT / "build" / "fuzz" / "quick"


def build(tree: Path = TREE) -> Path:
    """Compiles the changed files only, without optimisation in QUICK_TREE. Returns the directory of the executables."""
    here = Path(sys.executable).parent
    environment = os.environ | {"PATH": f"{here}{os.pathsep}{os.environ['PATH']}"}
    configure = ["cmake", "-G", "Ninja", "-S", str(Path(__file__).parent), "-B", str(tree), "--log-level=WARNING"]
    level = len(_core.isa_levels()) - 1
    options = [f"-DPython_EXECUTABLE={sys.executable}", f"-DHIPRESS_COMPILED_LEVEL={level}"]
    options.append(f"-DHIPRESS_FUZZ_GENERATED={'-O0' if tree == QUICK_TREE else '-O1'}")
    for command in ([*configure, *options], ["cmake", "--build", str(tree)]):
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return tree


if __name__ == "__main__":
    print(build())
