# SPDX-License-Identifier: Apache-2.0
"""Prints the C++ sources of folders that include the thread-safety annotations, directly or through other headers.

annotated_sources.py core         for `make threads`, from the root of the repository

Clang's analysis is silent about a source without annotations, so `make threads` need not parse it.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path

ANNOTATIONS = "core/base/thread_annotations.h"
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)


def annotated_sources(root: Path, folders: list[str]) -> list[str]:
    """The paths of these sources, relative to `root`. Paths in includes are relative to `root` too, or to their
    file's folder.

    Raises:
        ValueError: no source includes the annotations, so the analysis would check nothing.
    """

    @cache
    def included(file: Path) -> frozenset[Path]:
        names = _INCLUDE.findall(file.read_text())
        places = (place for name in names for place in (root / name, file.parent / name))
        return frozenset(place.resolve() for place in places if place.is_file())

    def leads_to_annotations(source: Path) -> bool:
        seen: set[Path] = set()
        waiting = [source]
        while waiting:
            new = included(waiting.pop()) - seen
            seen |= new
            waiting += new
        return (root / ANNOTATIONS).resolve() in seen

    sources = sorted(source for folder in folders for source in (root / folder).rglob("*.cc"))
    found = [str(source.relative_to(root)) for source in sources if leads_to_annotations(source.resolve())]
    if not found:
        raise ValueError(f"no source in {', '.join(folders)} includes {ANNOTATIONS}: name folders with such sources")
    return found


if __name__ == "__main__":
    print("\n".join(annotated_sources(Path.cwd(), sys.argv[1:])))
