# SPDX-License-Identifier: Apache-2.0
"""For cmake/frameworks.cmake: prints "folder;version" of a framework's package, or nothing where there is none.

    find_framework.py NAME FOLDER     FOLDER: of the package; empty: the one that would be imported

The framework is found, not imported: that takes seconds, and they do not all import side by side.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
from pathlib import Path


def main(name: str, folder: str) -> str | None:
    """What to print; None after an error, which has been told."""
    if not folder:
        spec = importlib.util.find_spec(name)
        if spec is None or not spec.submodule_search_locations:
            return ""
        folder = spec.submodule_search_locations[0]
    package = Path(folder)
    if not (package / "include").is_dir():
        print(f"there is no include/ in {package}", file=sys.stderr)
        return None
    # Whatever the distribution is called: tensorflow's package comes as tensorflow or tensorflow-cpu.
    for found in importlib.metadata.distributions(path=[str(package.parent)]):
        # Not found.files, which leaves out files that were not unpacked, from Python 3.12 on.
        record = found.read_text("RECORD") or ""
        if any(line.startswith(f"{name}/__init__.py,") for line in record.splitlines()):
            return f"{package};{found.version}"
    print(f"no .dist-info beside {package} says which version it is", file=sys.stderr)
    return None


if __name__ == "__main__":
    answer = main(*sys.argv[1:])
    print(answer or "", end="")
    sys.exit(answer is None)
