# SPDX-License-Identifier: Apache-2.0
"""Makes Python environments with Horovod, a peer of sync.py and train.py, at their first use.

    python benchmarks/harness/horovod_environment.py mxnet        makes the environment for MXNet and prints its
    interpreter

Horovod 0.28.1, its last release, is compiled with Gloo and without MPI, for the installed torch or for the MXNet of
framework_environment.py. That takes about three minutes. The environment lies in build/horovod/FRAMEWORK and imports
the framework from its own environment. Delete the folder to build again.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # Python adds only the script's own folder to the path

from benchmarks.harness import framework_environment

VERSION = "0.28.1"
HERE = Path(__file__).parents[2] / "build" / "horovod"
#: Deadline of the compiler (seconds); it takes 160 on two idle cores.
DEADLINE = 3600.0


@dataclass(frozen=True)
class Framework:
    """A framework of Horovod: its module, the name of its build switch, and whether its headers need C++20."""

    module: str
    switch: str
    is_cpp20: bool


FRAMEWORKS = {
    "torch": Framework("horovod.torch", "PYTORCH", is_cpp20=True),
    "mxnet": Framework("horovod.mxnet", "MXNET", is_cpp20=False),
}

#: A compiler that replaces C++14 and C++17, which Horovod's build asks for, with C++20.
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
    """Horovod cannot be built here; the text gives the reason."""


def python(framework: str) -> Path:
    """The interpreter of the environment with Horovod, which is made if it does not exist. Raises BuildFailed."""
    interpreter = HERE / framework / "environment" / "bin" / "python"
    if not _works(framework, interpreter):
        try:
            _make(framework, interpreter)
        except (OSError, subprocess.TimeoutExpired, framework_environment.EnvironmentFailed) as error:
            raise BuildFailed(f"Horovod {VERSION} could not be built: {error}") from error
    return interpreter


def _works(framework: str, interpreter: Path) -> bool:
    """Whether the interpreter imports Horovod; it does not if Horovod was built for another version of the
    framework."""
    check = f"import {FRAMEWORKS[framework].module} as hvd; assert hvd.gloo_built()"
    return interpreter.exists() and subprocess.run([interpreter, "-c", check], capture_output=True).returncode == 0


def _make(framework: str, interpreter: Path) -> None:
    compiler = os.environ.get("CXX") or shutil.which("g++")
    if compiler is None:
        raise BuildFailed("Horovod needs a C++ compiler: install g++, or set CXX")
    of_framework = framework_environment.python(framework)
    folder = HERE / framework
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    run = functools.partial(_run, framework)
    run([of_framework, "-m", "venv", folder / "environment"], "venv")
    # The framework's packages come after the environment's own packages.
    own = sysconfig.get_path("purelib", vars={"base": str(folder / "environment")})
    (Path(own) / "framework.pth").write_text(_packages(of_framework) + "\n")
    pip: list[str | Path] = [interpreter, "-m", "pip", "--disable-pip-version-check", "install"]
    # Later versions of setuptools lack pkg_resources, which Horovod's setup.py needs.
    run([*pip, "setuptools<81", "wheel", "packaging", "cloudpickle", "psutil", "pyyaml", "cffi"], "packages")
    log = folder / "horovod.log"
    print(f"building Horovod {VERSION} for {framework}, about three minutes; log: {log}", file=sys.stderr, flush=True)
    # A cached wheel may have been built for another framework.
    options = ["--no-build-isolation", "--no-deps", "--no-cache-dir", "--no-binary", "horovod", "--verbose"]
    run([*pip, *options, f"horovod=={VERSION}"], "horovod", CXX=_compiler(framework, compiler))
    if not _works(framework, interpreter):
        module = FRAMEWORKS[framework].module
        raise BuildFailed(
            f"Horovod {VERSION} was built but cannot be imported; try: {interpreter} -c 'import {module}'"
        )


def _packages(interpreter: Path) -> str:
    """The folder of the interpreter's packages."""
    asked = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return subprocess.run([interpreter, "-c", asked], capture_output=True, text=True, check=True).stdout.strip()


def _compiler(framework: str, compiler: str) -> str:
    if not FRAMEWORKS[framework].is_cpp20:
        return compiler
    wrapper = HERE / framework / "c++"
    wrapper.write_text(_COMPILER.format(compiler=compiler))
    wrapper.chmod(0o755)
    return str(wrapper)


def _run(framework: str, command: Sequence[str | Path], log: str, **variables: str) -> None:
    switches = {f"HOROVOD_WITHOUT_{switch}": "1" for switch in ("PYTORCH", "TENSORFLOW", "MXNET")}
    switch = FRAMEWORKS[framework].switch
    switches[f"HOROVOD_WITH_{switch}"] = switches.pop(f"HOROVOD_WITHOUT_{switch}")
    environment = {
        **os.environ,
        # CMake comes from this environment.
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
        "HOROVOD_WITHOUT_MPI": "1",
        "HOROVOD_WITH_GLOO": "1",
        "HOROVOD_CPU_OPERATIONS": "GLOO",
        # Horovod's third-party parts require old versions of CMake, which CMake 4 does not support without this
        # setting.
        "CMAKE_POLICY_VERSION_MINIMUM": "3.5",
        **switches,
        **variables,
    }
    file = HERE / framework / f"{log}.log"
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
    """Makes the environment. Returns the exit code."""
    if len(sys.argv) != 2 or sys.argv[1] not in FRAMEWORKS:
        print(f"usage: horovod_environment.py {'|'.join(FRAMEWORKS)}", file=sys.stderr)
        return 2
    try:
        print(python(sys.argv[1]))
    except BuildFailed as error:
        print(f"horovod_environment.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
