# SPDX-License-Identifier: Apache-2.0
"""The Python environments that tests need beside their own: `python -m tests.environments` makes all of them.

A test makes its environment if it is missing. The environments are in build/; the name of each comes from the
requirements that it holds. To make an environment again, delete its folder.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_ROOT = Path(__file__).parents[1]


def environment(
    kind: str,
    requirements: Sequence[str],
    build_variables: Mapping[str, str] | None = None,
    *,
    above_this_one: bool = False,
) -> Path:
    """The folder of an environment in build/KIND; the function makes the environment if it is missing.

    Arguments:
        requirements: files in requirements/, without ending, installed in that order; the last one gives the name.
        build_variables: environment variables of a build; pip's cache then neither provides nor keeps packages.
        above_this_one: the new environment also finds the packages of this environment, and has torchrun.
    """
    files = [_ROOT / "requirements" / f"{name}.txt" for name in requirements]
    texts = b"".join(file.read_bytes() for file in files)
    kept = _ROOT / "build" / kind
    folder = kept / f"{files[-1].stem}-{hashlib.sha256(texts).hexdigest()[:12]}"
    kept.mkdir(parents=True, exist_ok=True)
    with (kept / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another test process may be making it
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            _make(folder, files, build_variables or {})
            if above_this_one:
                _lay_above_this_one(folder)
            (folder / "complete").touch()
    return folder


def pip(folder: Path) -> list[str]:
    """The command that runs pip for the environment in `folder`. It is this environment's pip, because installing
    another one takes two seconds."""
    python = str(folder / "bin" / "python")
    return [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"]


def _make(folder: Path, files: Sequence[Path], build_variables: Mapping[str, str]) -> None:
    # Horovod's build calls the pip of its environment.
    _run([sys.executable, "-m", "venv", *([] if build_variables else ["--without-pip"]), str(folder)], {})
    path = os.pathsep.join([str(folder / "bin"), os.environ["PATH"]])
    for file in files:
        # pip's cache would give this build to an environment that needs other build variables.
        options = ["--no-cache-dir", "--no-build-isolation"] if build_variables else []
        _run([*pip(folder), "install", "--no-deps", *options, "-r", str(file)], {"PATH": path, **build_variables})


def _lay_above_this_one(folder: Path) -> None:
    """Gives the environment this environment's packages: torch, which is large, and HiPress are on the disk once."""
    paths = sysconfig.get_paths(vars={"base": str(folder), "platbase": str(folder)})
    Path(paths["purelib"], "this-one.pth").write_text(f"{sysconfig.get_paths()['purelib']}\n")
    shutil.copy(_ROOT / "tests" / "fewer_collections.pth", paths["purelib"])
    torchrun = folder / "bin" / "torchrun"
    torchrun.write_text(f'#!/bin/sh\nexec "{folder}/bin/python" -m torch.distributed.run "$@"\n')
    torchrun.chmod(0o755)


def recipes() -> Path:
    """The environment for the recipes of the guide: trainers that wrap torch."""
    return environment("recipes", ["recipes"], above_this_one=True)


def _run(command: Sequence[str], variables: dict[str, str]) -> None:
    done = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"


def main() -> None:
    """Makes all environments of the tests that will run, so that no test waits for a download or a compiler."""
    from tests.launch.launchers import LAUNCHERS

    makers = [
        *(launcher.environment for launcher in LAUNCHERS.values()),
        lambda: environment("browser", ["browser"]),
        lambda: environment("editors", ["pyright"]),
        lambda: environment("distribution", ["bare"]),
    ]
    if os.environ.get("TIER") == "thorough":
        makers.append(recipes)
    with ThreadPoolExecutor(max_workers=2) as pool:
        for folder in pool.map(lambda make: make(), makers):
            print(folder.relative_to(_ROOT))


if __name__ == "__main__":
    main()
