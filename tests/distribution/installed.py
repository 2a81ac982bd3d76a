# SPDX-License-Identifier: Apache-2.0
"""The wheel as a stranger installs it: into an environment without a framework, on a system without a compiler."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.environments import environment

ROOT = Path(__file__).parents[2]
MINUTES = 120.0
#: A root folder of libraries and devices alone: no shell, no compiler, no program but those of the environment.
_SMALL_ROOT = """
root=$0
mount -t tmpfs none "$root"
for folder in /dev /etc /proc /sys /usr/lib /usr/lib64 "$PYTHON_PREFIX" "$1" "$2"; do
  test -d "$folder" || continue
  mkdir -p "$root$folder"
  mount --rbind "$folder" "$root$folder"
done
ln -s usr/lib "$root/lib"
test ! -d /usr/lib64 || ln -s usr/lib64 "$root/lib64"
mkdir -p "$root/tmp"
shift 2
exec chroot "$root" "$@"
"""


def environment_without_frameworks() -> Path:
    """An environment with what the package requires, and no framework."""
    return environment("distribution", ["bare"])


def install(wheel: Path) -> Path:
    """Installs the wheel into that environment. Returns the folder."""
    folder = environment_without_frameworks()
    pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    for command in ([*pip, "install", "--quiet", "--no-deps", "--force-reinstall", str(wheel)], [*pip, "check"]):
        done = subprocess.run(command, capture_output=True, text=True, timeout=MINUTES, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder


def run(folder: Path, command: Sequence[str], work: Path, *, small_root: bool = False) -> str:
    """What a command of the environment prints, with none of the system's programs in PATH. `small_root`: in a root
    folder that has none of them either, which takes a user who may mount."""
    variables = {"PATH": str(folder / "bin"), "HOME": str(work), "LANG": "C.UTF-8"}
    words = [str(folder / "bin" / command[0]), *command[1:]]
    if small_root:
        root = work / "root"
        root.mkdir(exist_ok=True)
        variables |= {"PATH": f"{variables['PATH']}:/usr/sbin:/usr/bin", "PYTHON_PREFIX": sys.base_prefix}
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
