# SPDX-License-Identifier: Apache-2.0
"""Installs the wheel as a user does: into an environment without a framework, on a system without a compiler."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.environments import environment, pip

ROOT = Path(__file__).parents[2]
MINUTES = 120.0
#: Makes a root folder that has libraries and devices, but no shell and no compiler. Outside the environment Python's
#: interpreter is its only program; it may be one of the system's.
_SMALL_ROOT = """
root=$0
mount -t tmpfs none "$root"
for folder in /dev /etc /proc /sys /usr/lib /usr/lib64 "$PYTHON_LIBRARIES" "$1" "$2"; do
  test -d "$folder" || continue
  mkdir -p "$root$folder"
  mount --rbind "$folder" "$root$folder"
done
for file in $INTERPRETERS; do
  mkdir -p "$root${file%/*}"
  touch "$root$file"
  mount --bind "$file" "$root$file"
done
ln -s usr/lib "$root/lib"
test ! -d /usr/lib64 || ln -s usr/lib64 "$root/lib64"
mkdir -p "$root/tmp"
shift 2
exec chroot "$root" "$@"
"""


def environment_without_frameworks() -> Path:
    """An environment with the packages that HiPress requires, and without a framework."""
    return environment("distribution", ["bare"])


def install(wheel: Path) -> Path:
    """Installs the wheel into the environment without frameworks. Returns the environment's folder."""
    folder = environment_without_frameworks()
    for words in (["install", "--quiet", "--no-deps", "--force-reinstall", str(wheel)], ["check"]):
        done = subprocess.run([*pip(folder), *words], capture_output=True, text=True, timeout=MINUTES, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder


def _interpreters(folder: Path) -> list[Path]:
    """The files outside the environment that its `python` leads to, link by link."""
    path, found = folder / "bin" / "python", []
    while path.is_symlink():
        path = path.parent / path.readlink()
        if not path.is_relative_to(folder):
            found.append(path)
    return found


def run(folder: Path, command: Sequence[str], work: Path, *, small_root: bool = False) -> str:
    """Returns the output of a command of the environment; PATH has none of the system's programs. `small_root`: the
    command runs in a root folder that also has no programs. This needs a user who may mount."""
    variables = {"PATH": str(folder / "bin"), "HOME": str(work), "LANG": "C.UTF-8"}
    words = [str(folder / "bin" / command[0]), *command[1:]]
    if small_root:
        root = work / "root"
        root.mkdir(exist_ok=True)
        variables |= {
            "PATH": f"{variables['PATH']}:/usr/sbin:/usr/bin",
            "PYTHON_LIBRARIES": f"{sys.base_prefix}/lib",
            "INTERPRETERS": " ".join(map(str, _interpreters(folder))),
        }
        words = [
            "/usr/bin/unshare",
            "--mount",
            "/bin/sh",
            "-euc",
            _SMALL_ROOT,
            str(root),
            str(folder),
            str(work),
            *words,
        ]
    done = subprocess.run(words, env=variables, cwd=work, capture_output=True, text=True, timeout=MINUTES, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
