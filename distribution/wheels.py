# SPDX-License-Identifier: Apache-2.0
"""Builds the published files: the source distribution, and a wheel for each version of Python.

    python -m distribution.wheels [VERSION...]      into build/dist

Every wheel has the operators of PyTorch, TensorFlow and MXNet. The frameworks' headers and UCX are the same for all
versions of Python, so with ccache only the module `hipress._core` is compiled again for each version.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from distribution.interpreters import interpreter
from distribution.repair import repaired
from distribution.trial import tried

ROOT = Path(__file__).resolve().parents[1]
BUILD, DIST = ROOT / "build" / "wheels", ROOT / "build" / "dist"
#: The versions of Python with a published wheel.
VERSIONS = ("3.10", "3.11", "3.12", "3.13")
#: The sizes of the last build of each file, for docs/update_wheels.py.
RECORD = ROOT / "benchmarks" / "results" / "wheels.json"
#: A package of requirements/build.txt that this build does not need, because it gets the package's headers.
_NOT_NEEDED = "torch"


def main(versions: Sequence[str]) -> int:
    """Builds, repairs, tries and prints sizes; the exit code."""
    made = [source_distribution(), *map(wheel, versions or VERSIONS)]
    sizes: list[dict[str, str | int]] = [
        {"file": one.name, "bytes": one.stat().st_size, "unpacked_bytes": _unpacked_bytes(one)} for one in made
    ]
    for one in sizes:
        print(f"{DIST.relative_to(ROOT)}/{one['file']}: {int(one['bytes']) / 2**20:.1f} MiB")
    for one in made[1:]:
        print(f"{one.name} works with Python {tried(one)}")
    _record(sizes)
    return 0


def wheel(version: str) -> Path:
    """The repaired wheel for one version of Python, such as "3.12"."""
    return repaired(compiled(version, BUILD / version, BUILD / f"tree-{version}", "tensorflow", "mxnet"), DIST)


def compiled(version: str, into: Path, tree: Path, *others: str, seconds: float | None = None) -> Path:
    """A wheel for one version of Python as the compiler has made it, with the operators of torch and of the other
    frameworks. What is compiled stays in `tree` for later builds. Raises subprocess.SubprocessError if the build fails
    or takes more seconds."""
    python = _environment(version)
    shutil.rmtree(into, ignore_errors=True)
    options = [f"cmake.define.{name}={folder}" for name, folder in _folders(others).items()]
    # Another compiler than the usual one may have new warnings.
    strict = os.environ.get("HIPRESS_WERROR", "ON")
    options += [f"cmake.define.HIPRESS_WERROR={strict}", f"build-dir={tree}"]
    settings = [f"--config-settings={option}" for option in options]
    pip = [python, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps"]
    _run([*pip, "-w", into, ".", *settings], seconds)
    (built,) = into.glob("*.whl")
    return built


def source_distribution() -> Path:
    """The .tar.gz, from which `pip install` builds on any system."""
    for old in DIST.glob("*.tar.gz"):
        old.unlink()
    _run([sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", DIST, "."])
    (made,) = DIST.glob("*.tar.gz")
    return made


def _record(sizes: Sequence[dict[str, str | int]]) -> None:
    """Replaces the records of the same version of Python. Records of other versions stay."""

    def version(one: dict[str, str | int]) -> str:
        return str(one["file"]).partition("-manylinux")[0]

    before = json.loads(RECORD.read_text())["files"] if RECORD.exists() else []
    made = {version(one): one for one in [*before, *sizes]}
    RECORD.write_text(json.dumps({"files": sorted(made.values(), key=version, reverse=True)}, indent=1) + "\n")


def _unpacked_bytes(file: Path) -> int:
    if file.suffix == ".whl":
        with zipfile.ZipFile(file) as archive:
            return sum(one.file_size for one in archive.infolist())
    with tarfile.open(file) as source:
        return sum(one.size for one in source)


def _folders(others: Sequence[str]) -> dict[str, Path]:
    """CMake's options for the folders with the headers of UCX and torch, from this Python's environment."""
    from frameworks.fetch_headers import framework_headers

    installed = {name: find_spec(name) for name in ("libucx", "torch")}
    found = {name: Path(spec.origin).parent for name, spec in installed.items() if spec is not None and spec.origin}
    if len(found) < len(installed):
        raise RuntimeError("libucx and torch must be installed beside this Python: run make wheels")
    return {
        "HIPRESS_UCX_ROOT": found["libucx"],
        "HIPRESS_TORCH_ROOT": found["torch"],
        **{f"HIPRESS_{name.upper()}_ROOT": framework_headers(name) for name in others},
    }


def _environment(version: str) -> Path:
    """The Python of an environment with the packages for the build. The environment is kept for later builds."""
    folder = BUILD / f"python-{version}"
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        _run([interpreter(version), "-m", "venv", folder])
        lines = (ROOT / "requirements" / "build.txt").read_text().splitlines()
        needed = [line for line in lines if line and not line.startswith(("#", _NOT_NEEDED))]
        _run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *needed])
        (folder / "complete").touch()
    return python


def _run(command: Sequence[str | Path], seconds: float | None = None) -> None:
    subprocess.run([str(word) for word in command], cwd=ROOT, check=True, timeout=seconds)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
