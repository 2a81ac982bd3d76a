# SPDX-License-Identifier: Apache-2.0
"""Applies the diff blocks of a page to a copy of the files. The hunks of these blocks have no line numbers."""

from __future__ import annotations

from pathlib import Path


def apply(diff: str, root: Path) -> list[str]:
    """Applies the hunks to the files below `root` and returns the paths of these files. Each hunk must fit exactly one
    place."""
    changed: list[str] = []
    for part in diff.split("--- a/")[1:]:
        header, *hunks = part.split("\n@@\n")
        path = header.splitlines()[0]
        file = root / path
        text = file.read_text()
        for hunk in hunks:
            lines = hunk.rstrip("\n").split("\n")
            assert all(line[:1] in (" ", "+", "-") for line in lines), hunk
            before = "".join(f"{line[1:]}\n" for line in lines if line[0] != "+")
            after = "".join(f"{line[1:]}\n" for line in lines if line[0] != "-")
            assert text.count(before) == 1, f"{path} does not have exactly one place for:\n{before}"
            text = text.replace(before, after)
        file.write_text(text)
        changed.append(path)
    return changed
