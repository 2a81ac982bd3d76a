# SPDX-License-Identifier: Apache-2.0
"""Launchers other than ours, each installed into an environment of its own when a test first asks for it.

The environments lie in build/launchers, named after the requirements that they hold; delete one to make it again.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_REQUIREMENTS = _ROOT / "requirements" / "launchers"
_KEPT = _ROOT / "build" / "launchers"

#: Horovod without what it compiles: HiPress takes the ranks' places from horovodrun, and no collectives.
_HOROVOD = {
    "HOROVOD_WITHOUT_MPI": "1",
    "HOROVOD_WITHOUT_GLOO": "1",
    "HOROVOD_WITHOUT_PYTORCH": "1",
    "HOROVOD_WITHOUT_TENSORFLOW": "1",
    "HOROVOD_WITHOUT_MXNET": "1",
    # Its CMake file asks for a version that CMake 4 no longer knows.
    "CMAKE_POLICY_VERSION_MINIMUM": "3.5",
}
#: horovodrun itself, but for its look whether those collectives are there.
HOROVODRUN = """
from horovod.runner import launch
if __name__ == "__main__":
    launch.gloo_built = lambda verbose=False: True
    launch.run_commandline()
"""


@dataclass(frozen=True)
class Launcher:
    """One launcher: the requirements of its environment, in order, and its command there, up to the number of ranks."""

    source: str  # The name under which hipress.rendezvous knows it.
    requirements: tuple[str, ...]
    command: tuple[str, ...]
    build_variables: dict[str, str] = field(default_factory=dict)

    def start(self, size: int, *program: str) -> list[str]:
        """The command that runs `program` as `size` ranks."""
        name, *arguments = self.command
        return [str(self.environment() / "bin" / name), *arguments, "-np", str(size), *program]

    def environment(self) -> Path:
        """The folder of its environment, which is made first if there is none."""
        texts = b"".join((_REQUIREMENTS / f"{name}.txt").read_bytes() for name in self.requirements)
        folder = _KEPT / f"{self.requirements[-1]}-{hashlib.sha256(texts).hexdigest()[:12]}"
        _KEPT.mkdir(parents=True, exist_ok=True)
        with (_KEPT / f"{folder.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # other tests may be about to make it, too
            if not (folder / "complete").exists():
                shutil.rmtree(folder, ignore_errors=True)
                self._make(folder)
                (folder / "complete").touch()
        return folder

    def _make(self, folder: Path) -> None:
        _run([sys.executable, "-m", "venv", str(folder)], {})
        pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--no-deps"]
        path = os.pathsep.join([str(folder / "bin"), os.environ["PATH"]])
        for name in self.requirements:
            # pip would keep the Horovod that is built here, and give it to environments that want all of it.
            options = ["--no-cache-dir", "--no-build-isolation"] if self.build_variables else []
            _run([*pip, *options, "-r", str(_REQUIREMENTS / f"{name}.txt")], {"PATH": path, **self.build_variables})


LAUNCHERS = {
    "horovodrun": Launcher(
        "horovodrun", ("horovod-build", "horovod"), ("python", "-c", HOROVODRUN, "--gloo"), _HOROVOD
    ),
    # It refuses to run as root unless told to, binds all ranks to the first cores, and counts cores as slots.
    "openmpi": Launcher(
        "mpirun (Open MPI)",
        ("openmpi",),
        ("mpirun", "--allow-run-as-root", "--bind-to", "none", "--map-by", ":OVERSUBSCRIBE"),
    ),
    "mpich": Launcher("mpirun (MPICH)", ("mpich",), ("mpirun",)),
}


def _run(command: Sequence[str], variables: dict[str, str]) -> None:
    done = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
