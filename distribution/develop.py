# SPDX-License-Identifier: Apache-2.0
"""Makes the package that is installed in this environment the one of this clone: its Python files become links to their
sources, so that a change of them needs no build.

    python -m distribution.develop

`make develop` runs it. What is compiled stays as it was installed.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: The tree of the package: links to the folders in which its parts are.
SOURCES = ROOT / "src" / "hipress"
#: Endings of the files that are read when the package is used, and not when it is built.
READ = (".py", ".pyi", "evidence.json", ".lark", ".typed")


def sources(folder: Path = SOURCES) -> dict[Path, Path]:
    """Each file of the package that is read when it is used: its place in the package, and where it is."""
    found = {}
    for place, folders, files in os.walk(folder, followlinks=True):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in files:
            if name.endswith(READ):
                found[Path(place, name).relative_to(folder)] = Path(place, name).resolve()
    return found


def link(package: Path, folder: Path = SOURCES) -> int:
    """Links the files of the installed package to their sources, and removes links to files that are gone. Returns how
    many links are new."""
    new = 0
    for place, source in sources(folder).items():
        installed = package / place
        if installed.is_symlink() and installed.resolve() == source:
            continue
        installed.parent.mkdir(parents=True, exist_ok=True)
        installed.unlink(missing_ok=True)
        installed.symlink_to(source)
        new += 1
    for installed in package.rglob("*"):
        if installed.is_symlink() and not installed.exists():
            installed.unlink()
    return new


def main() -> int:
    """The command."""
    spec = find_spec("hipress")
    if spec is None or spec.origin is None:
        print("hipress is not installed in this environment: run `make develop`", file=sys.stderr)
        return 1
    package = Path(spec.origin).parent
    print(f"{package}: Python files are those of {ROOT} ({link(package)} new links)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
