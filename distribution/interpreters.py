# SPDX-License-Identifier: Apache-2.0
"""Finds the interpreters of Python's versions."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path


def interpreter(version: str) -> Path:
    """The interpreter of a version, from PATH or from pyenv. Raises RuntimeError if there is none."""
    if found := shutil.which(f"python{version}"):
        probe = subprocess.run([found, "-c", "pass"], capture_output=True, check=False)
        if probe.returncode == 0:  # pyenv also has this program for inactive versions
            return Path(found)
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for folder in sorted(kept.glob(f"{version}.*"), reverse=True):
        if (folder / "bin" / "python").exists():
            return folder / "bin" / "python"
    raise RuntimeError(f"no Python {version}: install it, such as by pyenv install {version}")
