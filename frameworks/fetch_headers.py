# SPDX-License-Identifier: Apache-2.0
"""Fetches the headers of frameworks that cannot be installed side by side, to build all operators at once.

    python frameworks/fetch_headers.py tensorflow mxnet      fetches the missing headers and prints, for each
                                                             framework, CMake's option that names the folder

It takes only the headers from the wheel that requirements/ pins, because an environment with TensorFlow takes 1.6 GB.
It keeps the headers in build/headers/<distribution>-<version>.
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Wheel:
    """A framework's distribution, and the needed parts of its wheel."""

    distribution: str
    parts: tuple[str, ...]
    unneeded: str = "//"  # The part of `parts` that is not needed.

    def needs(self, name: str) -> bool:
        """Whether this file of the wheel is needed. CMake reads the version from .dist-info."""
        needed = name.startswith(self.parts) and not name.startswith(self.unneeded)
        return needed or name.partition("/")[0].endswith(".dist-info")


WHEELS = {
    "tensorflow": Wheel("tensorflow-cpu", ("tensorflow/include/",), "tensorflow/include/external/"),
    "mxnet": Wheel("mxnet", ("mxnet/include/", "mxnet/src/lib_api.cc")),
}


class Unavailable(Exception):
    """The package index does not give the wheel; the text is pip's."""


@functools.cache
def framework_headers(framework: str) -> Path:
    """The folder of the framework's package, which contains `include`. Raises Unavailable."""
    wheel = WHEELS[framework]
    version = _pinned(framework, wheel.distribution)
    kept = _ROOT / "build" / "headers" / f"{wheel.distribution}-{version}"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as work:
            unpacked = Path(work) / "unpacked"
            with zipfile.ZipFile(_download(f"{wheel.distribution}=={version}", Path(work))) as archive:
                archive.extractall(unpacked, [name for name in archive.namelist() if wheel.needs(name)])
            if not kept.exists():  # another process may have been faster
                os.replace(unpacked, kept)
    return kept / framework


def _pinned(framework: str, distribution: str) -> str:
    text = (_ROOT / "requirements" / f"{framework}.txt").read_text()
    found = re.search(rf"^{distribution}==(\S+)$", text, re.MULTILINE)
    assert found, f"requirements/{framework}.txt does not pin {distribution}"
    return found[1]


def _download(requirement: str, folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary", ":all:", "--dest", str(folder), requirement]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Unavailable(done.stderr.strip())
    return next(folder.glob("*.whl"))


def main(frameworks: list[str]) -> int:
    """Fetch and print; the exit code."""
    for framework in frameworks:
        if framework not in WHEELS:
            print(f"fetch_headers.py: {framework}: expected one of {', '.join(WHEELS)}", file=sys.stderr)
            return 2
        try:
            print(f"-DHIPRESS_{framework.upper()}_ROOT={framework_headers(framework)}")
        except Unavailable as error:
            print(f"fetch_headers.py: {framework}'s headers cannot be had: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
