# SPDX-License-Identifier: Apache-2.0
"""cmake/annotated_sources.py finds each source that `make threads` must analyse."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.architecture.files import ROOT

PROGRAM = ROOT / "cmake" / "annotated_sources.py"


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(PROGRAM), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


def test_a_source_is_found_through_other_headers_and_in_no_other_case(tmp_path: Path) -> None:
    files = {
        "core/base/thread_annotations.h": "",
        "core/base/mutex.h": '#include "core/base/thread_annotations.h"\n#include "core/run/circle.h"\n',
        "core/run/circle.h": '#pragma once\n#include "core/base/mutex.h"\n',
        "core/run/direct.cc": '#include <mutex>\n#include "core/base/thread_annotations.h"\n',
        "core/run/indirect.cc": '#include "core/run/circle.h"\n',
        "core/run/beside.cc": '#  include "circle.h"\n',
        "core/run/without.cc": '#include <mutex>\n// #include "core/base/mutex.h"\n',
        "other/elsewhere.cc": '#include "core/base/mutex.h"\n',
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    done = run(tmp_path, "core")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["core/run/beside.cc", "core/run/direct.cc", "core/run/indirect.cc"]


def test_no_source_is_an_error(tmp_path: Path) -> None:
    done = run(tmp_path, "core")
    assert done.returncode == 1
    assert "no source in core includes core/base/thread_annotations.h" in done.stderr


def test_each_source_that_names_a_guard_is_found() -> None:
    found = run(ROOT, "core").stdout.split()
    sources = {str(file.relative_to(ROOT)) for file in (ROOT / "core").rglob("*.cc")}
    guarded = {
        str(header.relative_to(ROOT).with_suffix(".cc"))
        for header in (ROOT / "core").rglob("*.h")
        if "HIPRESS_GUARDED_BY(" in header.read_text()
    }
    assert guarded & sources
    assert guarded & sources <= set(found)
