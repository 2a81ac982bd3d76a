# SPDX-License-Identifier: Apache-2.0
"""Makes Python environments for frameworks that cannot be installed beside torch, at their first use.

    python benchmarks/harness/framework_environment.py mxnet        makes the environment and prints its interpreter

An environment has the packages of requirements/FRAMEWORK.txt, and lies in build/environments; it has up to 1.6 GB.
HiPress is not installed there: its ranks import the package of this environment, and no other package of it. HiPress
must have been built with the framework's operators, as `make install` does.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import hipress

#: The frameworks. torch's environment is the environment of this program.
FRAMEWORKS = ("torch", "tensorflow", "mxnet")
_ROOT = Path(__file__).parents[2]
HERE = _ROOT / "build" / "environments"
#: Deadline of pip (seconds).
DEADLINE = 3600.0
#: Deadline to import a framework (seconds); TensorFlow takes ten from a cold disk cache.
_IMPORT_DEADLINE = 300.0


class EnvironmentFailed(Exception):
    """There is no environment in which hipress.FRAMEWORK runs; the text gives the reason."""


def python(framework: str) -> Path:
    """The interpreter of a framework's environment, which is made if it does not exist. Raises EnvironmentFailed."""
    if framework == "torch":
        return Path(sys.executable)
    folder = HERE / framework
    try:
        if not _is_complete(framework):
            _make(framework)
        interpreter = folder / "bin" / "python"
        _check(framework, interpreter)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentFailed(f"the environment of {framework} ({folder}) cannot be made: {error}") from error
    return interpreter


def variables(framework: str) -> dict[str, str]:
    """The environment variables of ranks in that environment: the path of HiPress."""
    if framework == "torch":
        return {}
    folder = HERE / "hipress"
    folder.mkdir(parents=True, exist_ok=True)
    package = Path(hipress.__file__).parent
    link = folder / "hipress"
    if not link.exists() or link.resolve() != package.resolve():
        link.unlink(missing_ok=True)
        link.symlink_to(package, target_is_directory=True)
    return {"PYTHONPATH": str(folder)}


def _requirements(framework: str) -> Path:
    return _ROOT / "requirements" / f"{framework}.txt"


def _installed(framework: str) -> Path:
    """A copy of the requirements of the environment; it is written last, so it marks a complete environment."""
    return HERE / framework / "requirements.txt"


def _is_complete(framework: str) -> bool:
    installed = _installed(framework)
    return installed.exists() and installed.read_text() == _requirements(framework).read_text()


def _make(framework: str) -> None:
    folder = HERE / framework
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    print(f"installing {framework} into {folder}, some minutes", file=sys.stderr, flush=True)
    _run(framework, sys.executable, "-m", "venv", folder)
    pip = (folder / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "--quiet", "install", "--no-deps")
    _run(framework, *pip, "-r", _requirements(framework))
    shutil.copy(_requirements(framework), _installed(framework))


def _run(framework: str, *command: str | Path) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE)
    if done.returncode != 0:
        raise EnvironmentFailed(f"{framework} could not be installed: {_last_line(done.stderr)}")


def _check(framework: str, interpreter: Path) -> None:
    done = subprocess.run(
        [interpreter, "-c", f"import hipress.{framework}"],
        env={**os.environ, **variables(framework)},
        capture_output=True,
        text=True,
        timeout=_IMPORT_DEADLINE,
    )
    if done.returncode != 0:
        raise EnvironmentFailed(f"hipress.{framework} cannot be imported there: {_last_line(done.stderr)}")


def _last_line(text: str) -> str:
    return next(reversed(text.strip().splitlines()), "no output")


def main() -> int:
    """Makes the environment. Returns the exit code."""
    if len(sys.argv) != 2 or sys.argv[1] not in FRAMEWORKS:
        print(f"usage: framework_environment.py {'|'.join(FRAMEWORKS)}", file=sys.stderr)
        return 2
    try:
        print(python(sys.argv[1]))
    except EnvironmentFailed as error:
        print(f"framework_environment.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
