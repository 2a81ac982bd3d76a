# SPDX-License-Identifier: Apache-2.0
"""Where the versions of Python are."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path


def interpreter(version: str) -> Path:
    """The interpreter of a version: in PATH, or among those of pyenv. Raises RuntimeError if there is none."""
    if found := shutil.which(f"python{version}"):
        probe = subprocess.run([found, "-c", "pass"], capture_output=True, check=False)
        if probe.returncode == 0:  # pyenv has a program of that name for versions that are not active, too
            return Path(found)
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for folder in sorted(kept.glob(f"{version}.*"), reverse=True):
        if (folder / "bin" / "python").exists():
            return folder / "bin" / "python"
    raise RuntimeError(f"no Python {version}: install it, such as by pyenv install {version}")
