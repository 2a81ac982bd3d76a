# SPDX-License-Identifier: Apache-2.0
"""Python environments that tests need beside their own, each installed when a test first asks for it.

They lie in build/, named after the requirements that they hold; delete one to make it again.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_ROOT = Path(__file__).parents[1]


def environment(kind: str, requirements: Sequence[str], build_variables: Mapping[str, str] | None = None) -> Path:
    """The folder of an environment in build/KIND, which is made first if there is none.

    Arguments:
        requirements: files in requirements/, without ending, installed in that order; the last one names it.
        build_variables: if something is built in it, and not to be taken from pip's cache or kept there.
    """
    files = [_ROOT / "requirements" / f"{name}.txt" for name in requirements]
    texts = b"".join(file.read_bytes() for file in files)
    kept = _ROOT / "build" / kind
    folder = kept / f"{files[-1].stem}-{hashlib.sha256(texts).hexdigest()[:12]}"
    kept.mkdir(parents=True, exist_ok=True)
    with (kept / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other tests may be about to make it, too
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            _make(folder, files, build_variables or {})
            (folder / "complete").touch()
    return folder


def _make(folder: Path, files: Sequence[Path], build_variables: Mapping[str, str]) -> None:
    _run([sys.executable, "-m", "venv", str(folder)], {})
    pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--no-deps"]
    path = os.pathsep.join([str(folder / "bin"), os.environ["PATH"]])
    for file in files:
        # pip would keep what is built here, and give it to environments that want it built otherwise.
        options = ["--no-cache-dir", "--no-build-isolation"] if build_variables else []
        _run([*pip, *options, "-r", str(file)], {"PATH": path, **build_variables})


def _run(command: Sequence[str], variables: dict[str, str]) -> None:
    done = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
