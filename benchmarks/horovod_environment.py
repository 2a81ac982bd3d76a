# SPDX-License-Identifier: Apache-2.0
"""The Python environment that has Horovod, a peer of sync.py; made when it is first asked for.

    python benchmarks/horovod_environment.py        makes it and prints its interpreter

Horovod 0.28.1, its last release, is compiled for the installed torch, with Gloo and without MPI. That takes about three
minutes. It lies in build/horovod and uses this environment's torch from where it is; nothing is installed into this
environment. Delete the folder to build again.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

VERSION = "0.28.1"
HERE = Path(__file__).parents[1] / "build" / "horovod"
#: For the compiler (seconds): 160 on two idle cores.
DEADLINE = 3600.0

#: torch's headers are C++20, Horovod's build asks for 14 or 17.
_COMPILER = """\
#!/bin/sh
for word do
  shift
  case $word in -std=*14|-std=*17) word=-std=gnu++20 ;; esac
  set -- "$@" "$word"
done
exec {compiler} "$@"
"""


class BuildFailed(Exception):
    """There is no Horovod here; the message says why."""


def python() -> Path:
    """The interpreter of the environment, which is made first if there is none. Raises BuildFailed."""
    interpreter = HERE / "environment" / "bin" / "python"
    if not _works(interpreter):
        try:
            _make(interpreter)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BuildFailed(f"Horovod {VERSION} could not be built: {error}") from error
    return interpreter


def _works(interpreter: Path) -> bool:
    """Whether it imports Horovod. Built for another torch it does not."""
    check = "import horovod.torch as hvd; assert hvd.gloo_built()"
    return interpreter.exists() and subprocess.run([interpreter, "-c", check], capture_output=True).returncode == 0


def _make(interpreter: Path) -> None:
    compiler = os.environ.get("CXX") or shutil.which("g++")
    if compiler is None:
        raise BuildFailed("Horovod needs a C++ compiler: install g++, or set CXX")
    shutil.rmtree(HERE, ignore_errors=True)
    HERE.mkdir(parents=True)
    wrapper = HERE / "c++"
    wrapper.write_text(_COMPILER.format(compiler=compiler))
    wrapper.chmod(0o755)
    _run([sys.executable, "-m", "venv", HERE / "environment"], "venv")
    # Behind the environment's own packages: torch, and CMake, are taken from where they are.
    own = sysconfig.get_path("purelib", vars={"base": str(HERE / "environment")})
    (Path(own) / "torch.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip: list[str | Path] = [interpreter, "-m", "pip", "--disable-pip-version-check", "install"]
    # pkg_resources, which Horovod's setup.py needs, has left later versions.
    _run([*pip, "setuptools<81", "wheel", "packaging", "cloudpickle", "psutil", "pyyaml", "cffi"], "packages")
    print(f"building Horovod {VERSION}, about three minutes; log: {HERE / 'horovod.log'}", file=sys.stderr, flush=True)
    # A cached wheel may be one that was built for another framework.
    options = ["--no-build-isolation", "--no-deps", "--no-cache-dir", "--no-binary", "horovod", "--verbose"]
    _run([*pip, *options, f"horovod=={VERSION}"], "horovod", CXX=str(wrapper))
    if not _works(interpreter):
        raise BuildFailed(
            f"Horovod {VERSION} was built but cannot be imported; try: {interpreter} -c 'import horovod.torch'"
        )


def _run(command: Sequence[str | Path], log: str, **variables: str) -> None:
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
        "HOROVOD_WITHOUT_MPI": "1",
        "HOROVOD_WITH_GLOO": "1",
        "HOROVOD_WITH_PYTORCH": "1",
        "HOROVOD_WITHOUT_TENSORFLOW": "1",
        "HOROVOD_WITHOUT_MXNET": "1",
        "HOROVOD_CPU_OPERATIONS": "GLOO",
        # Its third-party parts ask for versions of CMake that CMake 4 no longer knows.
        "CMAKE_POLICY_VERSION_MINIMUM": "3.5",
        **variables,
    }
    file = HERE / f"{log}.log"
    with file.open("wb") as output:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=DEADLINE,
        )
    if done.returncode != 0:
        lines = file.read_text(errors="replace").splitlines()
        errors = [line.strip() for line in lines if re.search(r"error:", line, re.IGNORECASE)] or lines[-1:]
        raise BuildFailed(f"Horovod {VERSION} could not be built ({file}): {errors[0] if errors else 'no output'}")


def main() -> int:
    """Make it; the exit code."""
    try:
        print(python())
    except BuildFailed as error:
        print(f"horovod_environment.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
