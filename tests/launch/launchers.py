# SPDX-License-Identifier: Apache-2.0
"""Launchers other than `hipress run`. A test that needs one installs it into an environment of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tests.environments import environment

#: Builds Horovod without its compiled parts: HiPress uses only horovodrun's environment variables, and no collective.
_HOROVOD = {
    "HOROVOD_WITHOUT_MPI": "1",
    "HOROVOD_WITHOUT_GLOO": "1",
    "HOROVOD_WITHOUT_PYTORCH": "1",
    "HOROVOD_WITHOUT_TENSORFLOW": "1",
    "HOROVOD_WITHOUT_MXNET": "1",
    # Horovod's CMake file asks for a version that CMake 4 does not support.
    "CMAKE_POLICY_VERSION_MINIMUM": "3.5",
}
#: Runs horovodrun without its check for the compiled collectives.
HOROVODRUN = """
from horovod.runner import launch
if __name__ == "__main__":
    launch.gloo_built = lambda verbose=False: True
    launch.run_commandline()
"""


@dataclass(frozen=True)
class Launcher:
    """One launcher: the requirements of its environment, in order, and its command in it without the number of
    ranks."""

    source: str  # the launcher's name in hipress.launch.rendezvous
    requirements: tuple[str, ...]
    command: tuple[str, ...]
    build_variables: dict[str, str] = field(default_factory=dict)

    def start(self, size: int, *program: str) -> list[str]:
        """The command that runs `program` as `size` ranks."""
        name, *arguments = self.command
        return [str(self.environment() / "bin" / name), *arguments, "-np", str(size), *program]

    def environment(self) -> Path:
        """The folder of the launcher's environment; the function makes the environment if it is missing."""
        names = [f"launchers/{name}" for name in self.requirements]
        return environment("launchers", names, self.build_variables)


LAUNCHERS = {
    "horovodrun": Launcher(
        "horovodrun", ("horovod-build", "horovod"), ("python", "-c", HOROVODRUN, "--gloo"), _HOROVOD
    ),
    # Open MPI refuses to run as root, binds all ranks to the first cores, and counts cores as slots; options change
    # this.
    "openmpi": Launcher(
        "mpirun (Open MPI)",
        ("openmpi",),
        ("mpirun", "--allow-run-as-root", "--bind-to", "none", "--map-by", ":OVERSUBSCRIBE"),
    ),
    "mpich": Launcher("mpirun (MPICH)", ("mpich",), ("mpirun",)),
}
