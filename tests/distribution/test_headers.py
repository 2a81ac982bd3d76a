# SPDX-License-Identifier: Apache-2.0
"""The build finds a framework of which only the headers are installed, with every version of Python."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from distribution.wheels import ROOT


def find(name: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "cmake" / "find_framework.py"), name, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_the_version_is_that_of_the_wheel_the_headers_are_from(tmp_path: Path) -> None:
    package = tmp_path / "tensorflow"
    (package / "include").mkdir(parents=True)
    assert find("tensorflow", package).returncode != 0
    information = tmp_path / "tensorflow_cpu-2.21.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: tensorflow-cpu\nVersion: 2.21.0\n")
    # Python 3.12 does not list files that were not unpacked.
    (information / "RECORD").write_text("tensorflow/__init__.py,sha256=x,1\ntensorflow/include/a.h,sha256=x,1\n")
    found = find("tensorflow", package)
    assert (found.returncode, found.stdout) == (0, f"{package};2.21.0"), found.stderr
