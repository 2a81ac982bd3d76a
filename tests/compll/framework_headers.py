# SPDX-License-Identifier: Apache-2.0
"""Headers of the frameworks that generated operators are compiled against.

Only the headers out of the wheel that requirements/ pins: an environment with TensorFlow in it takes 1.6 GB. They are
kept in build/frameworks/<name>-<version>.
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

_ROOT = Path(__file__).parents[2]
#: For each framework the package, the parts of its wheel that are needed, and those of them that are not.
_WHEELS = {
    "tensorflow": ("tensorflow-cpu", ("tensorflow/include/",), ("tensorflow/include/external/",)),
    "mxnet": ("mxnet", ("mxnet/include/mxnet/", "mxnet/include/dlpack/", "mxnet/src/lib_api.cc"), ()),
}


class Unavailable(Exception):
    """The package index does not give the wheel; pip's words."""


@functools.cache
def framework_headers(framework: str) -> Path:
    """The folder of the framework's package with its `include` in it. Raises Unavailable."""
    package, parts, unneeded = _WHEELS[framework]
    version = _pinned(framework, package)
    kept = _ROOT / "build" / "frameworks" / f"{framework}-{version}"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as work:
            unpacked = Path(work) / "unpacked"
            with zipfile.ZipFile(_download(f"{package}=={version}", Path(work))) as wheel:
                names = [n for n in wheel.namelist() if n.startswith(parts) and not n.startswith(unneeded or "//")]
                wheel.extractall(unpacked, names)
            if not kept.exists():  # another process may have been faster
                os.replace(unpacked, kept)
    return kept / framework


def _pinned(framework: str, package: str) -> str:
    text = (_ROOT / "requirements" / f"{framework}.txt").read_text()
    found = re.search(rf"^{package}==(\S+)$", text, re.MULTILINE)
    assert found, f"requirements/{framework}.txt does not pin {package}"
    return found[1]


def _download(requirement: str, folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary", ":all:", "--dest", str(folder), requirement]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Unavailable(done.stderr.strip())
    return next(folder.glob("*.whl"))
