# SPDX-License-Identifier: Apache-2.0
"""Python environments that tests need beside their own: `python -m tests.environments` makes all of them.

A test that runs without this makes the environment that it needs. The environments lie in build/, named after the
requirements that they hold; delete one to make it again.
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
    """The folder of an environment in build/KIND, which is made first if there is none.

    Arguments:
        requirements: files in requirements/, without ending, installed in that order; the last one names it.
        build_variables: if something is built in it, and not to be taken from pip's cache or kept there.
        above_this_one: its Python also finds the packages of this Python's environment, and runs torchrun.
    """
    files = [_ROOT / "requirements" / f"{name}.txt" for name in requirements]
    texts = b"".join(file.read_bytes() for file in files)
    kept = _ROOT / "build" / kind
    folder = kept / f"{files[-1].stem}-{hashlib.sha256(texts).hexdigest()[:12]}"
    kept.mkdir(parents=True, exist_ok=True)
    with (kept / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other tests may be about to make it, too
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            _make(folder, files, build_variables or {})
            if above_this_one:
                _lay_above_this_one(folder)
            (folder / "complete").touch()
    return folder


def _make(folder: Path, files: Sequence[Path], build_variables: Mapping[str, str]) -> None:
    _run([sys.executable, "-m", "venv", str(folder)], {})
    pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--no-deps"]
    path = os.pathsep.join([str(folder / "bin"), os.environ["PATH"]])
    for file in files:
        # pip would keep what is built here, and give it to environments that want it built otherwise.
        options = ["--no-cache-dir", "--no-build-isolation"] if build_variables else []
        _run([*pip, *options, "-r", str(file)], {"PATH": path, **build_variables})


def _lay_above_this_one(folder: Path) -> None:
    """torch, which is large, and HiPress are there once."""
    paths = sysconfig.get_paths(vars={"base": str(folder), "platbase": str(folder)})
    Path(paths["purelib"], "this-one.pth").write_text(f"{sysconfig.get_paths()['purelib']}\n")
    # The one that venv brings along hides that of torch.
    _run([str(folder / "bin" / "python"), "-m", "pip", "uninstall", "--yes", "setuptools"], {})
    torchrun = folder / "bin" / "torchrun"
    torchrun.write_text(f'#!/bin/sh\nexec "{folder}/bin/python" -m torch.distributed.run "$@"\n')
    torchrun.chmod(0o755)


def recipes() -> Path:
    """The environment of the guide's recipes: trainers that wrap torch."""
    return environment("recipes", ["recipes"], above_this_one=True)


def _run(command: Sequence[str], variables: dict[str, str]) -> None:
    done = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"


def main() -> None:
    """Makes all of them, so that no test waits for a download or a compiler."""
    from tests.launch.launchers import LAUNCHERS

    makers = [
        *(launcher.environment for launcher in LAUNCHERS.values()),
        lambda: environment("browser", ["browser"]),
        lambda: environment("distribution", ["bare"]),
        recipes,
    ]
    with ThreadPoolExecutor(max_workers=2) as pool:
        for folder in pool.map(lambda make: make(), makers):
            print(folder.relative_to(_ROOT))


if __name__ == "__main__":
    main()
