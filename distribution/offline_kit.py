# SPDX-License-Identifier: Apache-2.0
"""Packs what the tests and benchmarks of GPUs need on a machine without a network. The machine has a GPU, PyTorch,
NVRTC and a C++ compiler.

    python -m distribution.offline_kit FOLDER --python 3.12

FOLDER gets kit.tar.xz (about 16 MB) and run.sh. Copy it with a clone to the machine, and run there, in the clone,

    FOLDER/run.sh tests         the tests of `make test-gpu`
    FOLDER/run.sh bench NAME    the results of `make bench-gpu` whose name has NAME

The kit has the Python packages that PyTorch's own images miss, as wheels for that version of Python on x86-64, and `ip`
and `tc` of this machine with their libraries, for emulated clusters. The first run builds HiPress into
/tmp/hipress-kit; the environment variable KIT names another folder.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: The kit has these packages, in the versions of requirements/.
PACKAGES = (
    *("annotated-types", "lark", "libucx-cu12", "pybind11", "pydantic", "pydantic_core", "pytest"),
    *("scikit-build-core", "typer", "typing-inspection", "typing_extensions"),
)
PROGRAMS = ("ip", "tc")
#: Platforms of wheels; pip matches each exactly.
_PLATFORMS = (*(f"manylinux_2_{minor}_x86_64" for minor in (28, 27, 24, 17)), "manylinux2014_x86_64")

_RUN = """#!/bin/bash
# Made by distribution/offline_kit.py, which says how to use it. Runs in the root of a clone.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
kit=${KIT:-/tmp/hipress-kit}
export PYTHONPATH=$kit/site PATH=$kit/programs:$kit/site/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
if ! test -d "$kit/site"; then mkdir -p "$kit"; tar xJf "$here/kit.tar.xz" -C "$kit"; fi
if ! test -d "$kit/site/hipress"; then
  CMAKE_BUILD_PARALLEL_LEVEL=$(nproc) python3 -m pip install --no-build-isolation --no-deps --no-index --no-compile \\
    --no-cache-dir --target "$kit/site" .
fi
case ${1:-} in
  tests) HIPRESS_REQUIRE_GPU=1 exec python3 -m pytest -n 8 -p no:cacheprovider TESTS ;;
  bench) exec python3 benchmarks/regenerate.py --gpu "${@:2}" ;;
  *) echo "run.sh: give tests, or bench and part of a result's name" >&2; exit 2 ;;
esac
"""

#: Runs a carried program with the carried libraries: the machine's own may be older.
_WRAPPER = """#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
exec "$here/libraries/LOADER" --library-path "$here/libraries" "$here/libraries/NAME" "$@"
"""


def pinned(folder: Path = ROOT / "requirements") -> list[str]:
    """PACKAGES with their versions. Raises SystemExit if a package has none."""
    text = "\n".join(file.read_text() for file in sorted(folder.glob("*.txt")))
    lines = []
    for name in PACKAGES:
        found = re.search(rf"^{re.escape(name)}==([\w.]+)", text, re.MULTILINE)
        if found is None:
            raise SystemExit(f"offline_kit: requirements/ names no version of {name}")
        lines.append(f"{name}=={found[1]}")
    return lines


def download(packages: Sequence[str], python: str, folder: Path) -> None:
    """The wheels for that version of Python."""
    platforms = [argument for each in _PLATFORMS for argument in ("--platform", each)]
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "download", "--no-deps"]
    command += ["--only-binary=:all:", "--implementation", "cp", "--python-version", python, *platforms]
    subprocess.run([*command, "--dest", str(folder), *packages], check=True)


def unpack(wheels: Path, site: Path) -> None:
    """Without what only developers of UCX need; equal copies of a library become links."""
    for wheel in sorted(wheels.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)
    for file in [each for each in (site / "libucx").rglob("*") if each.is_file()]:
        if file.suffix in (".a", ".la") or "perftest" in file.name or file.parent.name == "bin":
            file.unlink()
    for file in sorted((site / "libucx").rglob("*.so")):
        for same in file.parent.glob(f"{file.name}.*"):
            same.unlink()
            same.symlink_to(file.name)


def carry(programs: Sequence[str], folder: Path) -> None:
    """Copies programs of this machine with their libraries and their loader; each gets a script that starts it. Raises
    SystemExit if one is missing."""
    libraries = folder / "libraries"
    libraries.mkdir(parents=True)
    for name in programs:
        program = shutil.which(name)
        if program is None:
            raise SystemExit(f"offline_kit: {name} is not here; install iproute2")
        shutil.copy(program, libraries / name)
        needed = re.findall(r"(/\S+) \(0x", subprocess.run(["ldd", program], capture_output=True, text=True).stdout)
        for library in needed:
            shutil.copy(library, libraries)
        (loader,) = {Path(each).name for each in needed if Path(each).name.startswith("ld-linux")}
        script = folder / name
        script.write_text(_WRAPPER.replace("LOADER", loader).replace("NAME", name))
        script.chmod(0o755)


def tests() -> str:
    """What `make test-gpu` runs."""
    command = ["make", "--silent", "--no-print-directory", "gpu-tests"]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--python", default="3.12", help="the machine's version (default: 3.12)")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        wheels, kit = Path(work, "wheels"), Path(work, "kit")
        download(pinned(), given.python, wheels)
        unpack(wheels, kit / "site")
        carry(PROGRAMS, kit / "programs")
        with tarfile.open(given.folder / "kit.tar.xz", "w:xz") as archive:
            for part in sorted(kit.iterdir()):
                archive.add(part, part.name)
    script = given.folder / "run.sh"
    script.write_text(_RUN.replace("TESTS", tests()))
    script.chmod(0o755)
    size = (given.folder / "kit.tar.xz").stat().st_size
    print(f"{given.folder}: kit.tar.xz ({size / 1e6:.0f} MB) and run.sh, for Python {given.python}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
