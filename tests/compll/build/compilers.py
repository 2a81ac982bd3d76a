# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for a C++ compiler: shell scripts with known behaviour that take no time, or less than the compiler."""

from __future__ import annotations

import os
from pathlib import Path


def script(path: Path, compiling: str, *, answer: str = "stand-in version 1.0") -> Path:
    """A program that answers -v, and otherwise runs `compiling`, where $output is the library to write."""
    path.write_text(f"""#!/bin/sh
output=
while [ $# -gt 0 ]; do
  if [ "$1" = -v ]; then echo "{answer}" >&2; exit 0; fi
  if [ "$1" = -o ]; then output=$2; fi
  shift
done
{compiling}
""")
    path.chmod(0o755)
    return path


def quick(folder: Path) -> Path:
    """A compiler in `folder` that does not optimise, which takes half of the time. It is for tests of what code means:
    the built-in codecs, the examples and the programs of test_emitted.py are tested as users compile them."""
    path = folder / "quick-compiler"
    path.write_text(f'#!/bin/sh\nexec {os.environ.get("CXX") or "c++"} "$@" -O0\n')
    path.chmod(0o755)
    return path


def counting(path: Path, library: Path, *, before: str = "true") -> Path:
    """A compiler that copies `library`, and adds a line to <path>.count each time."""
    return script(path, f'echo compiled >> "{path}.count"; {before}; cp "{library}" "$output"')


def count(path: Path) -> int:
    """The number of compilations by counting()."""
    counted = Path(f"{path}.count")
    return len(counted.read_text().splitlines()) if counted.exists() else 0


def environment(cache: Path, compiler: Path | None = None) -> dict[str, str]:
    """This process's environment with a cache and with a compiler, or without any compiler in PATH."""
    chosen = {"CXX": str(compiler)} if compiler is not None else {"PATH": str(cache / "nothing"), "CXX": ""}
    return {**os.environ, "HIPRESS_CACHE": str(cache), **chosen}
