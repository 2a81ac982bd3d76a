# SPDX-License-Identifier: Apache-2.0
"""No file and no folder is too large for one reading."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.architecture.files import ROOT, tracked

#: The design says "about 20" files in a folder; a folder with 24 files is full.
MOST_FILES = 24
MOST_LINES = 500
CODE = (".py", ".pyi", ".cc", ".h", ".cu", ".cll", ".lark", ".cmake", ".md")
#: A file with more lines gives the reason among its first lines.
REASON = f"longer than {MOST_LINES} lines because"
#: Folders with one file for each measurement, case or decision, or with generated code: no reader reads all of them.
DATA = (
    "docs/decisions",
    "benchmarks/results",
    "tests/compll/check/messages",
    "tests/compll/check/wrong",
    "tests/compll/golden",
    "tests/fuzz/seeds",
)


def test_no_folder_has_many_files_of_its_own() -> None:
    counts = Counter(str(Path(file).parent) for file in tracked() if not file.startswith(DATA))
    assert {folder: count for folder, count in counts.items() if count > MOST_FILES} == {}


def test_no_file_is_long_without_a_reason() -> None:
    def unexplained(file: str) -> bool:
        lines = (ROOT / file).read_text().splitlines()
        return len(lines) > MOST_LINES and REASON not in " ".join(lines[:15])

    assert [file for file in tracked(*CODE) if not file.startswith(DATA) and unexplained(file)] == []
