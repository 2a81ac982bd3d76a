# SPDX-License-Identifier: Apache-2.0
"""Who this process is and where its ranks meet, from the environment that a launcher left.

Each launcher is one `Source` in `SOURCES`; they are asked in order and the first whose variables are set answers. To
support another launcher, add an entry: nothing else of the package knows launchers.
"""

from __future__ import annotations

import hmac
import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from hipress.launch.rendezvous.hipress_run import from_hipress_run
from hipress.launch.rendezvous.horovodrun import from_horovodrun
from hipress.launch.rendezvous.mpich import from_mpich
from hipress.launch.rendezvous.open_mpi import from_open_mpi
from hipress.launch.rendezvous.place import Rendezvous
from hipress.launch.rendezvous.srun import from_srun
from hipress.launch.rendezvous.torchrun import from_torchrun


@dataclass(frozen=True)
class Source:
    """A launcher: its name, the variables that show that it started this process, and how to read them."""

    name: str
    variables: tuple[str, ...]
    read: Callable[[Mapping[str, str], float], Rendezvous]


def resolve(environ: Mapping[str, str] = os.environ, timeout: float = 60.0) -> Rendezvous:
    """This process' place, as its launcher says; a world of one if no launcher's variable is set.

    `timeout` (seconds) bounds the questions to the launcher's store. A launcher whose variables are set
    in part or wrongly raises `InvalidArgument` that names the variable: training alone by mistake, on every rank, looks
    like success and is the worst outcome. Raises `Timeout` or `TransportError` if the store does not answer.
    """
    for source in SOURCES:
        if any(name in environ for name in source.variables):
            return _with_secret(source, source.read(environ, timeout), environ)
    return _alone()


def _with_secret(source: Source, place: Rendezvous, environ: Mapping[str, str]) -> Rendezvous:
    """Most launchers' stores have no passwords: a secret of the user's own keeps the token from their readers."""
    secret = environ.get("HIPRESS_JOB_TOKEN", "")
    if not secret or source.name == "hipress run":  # there the variable is the token
        return place
    return replace(place, token=hmac.new(secret.encode(), place.token.encode(), "sha256").hexdigest())


def _alone() -> Rendezvous:
    """A world of one: a script started without a launcher."""
    return Rendezvous(0, 1, 0, 1, "127.0.0.1", 0, None, secrets.token_hex(16), source="no launcher")


#: The innermost launcher comes first: a launcher may run within a job of Slurm or MPI, and its ranks see both.
SOURCES: tuple[Source, ...] = (
    Source(
        "hipress run",
        (
            "HIPRESS_RANK",
            "HIPRESS_SIZE",
            "HIPRESS_LOCAL_RANK",
            "HIPRESS_LOCAL_SIZE",
            "HIPRESS_RENDEZVOUS",
            "HIPRESS_RENDEZVOUS_FD",
        ),
        from_hipress_run,
    ),
    Source(
        "horovodrun",
        (
            "HOROVOD_RANK",
            "HOROVOD_SIZE",
            "HOROVOD_LOCAL_RANK",
            "HOROVOD_LOCAL_SIZE",
            "HOROVOD_GLOO_RENDEZVOUS_ADDR",
            "HOROVOD_GLOO_RENDEZVOUS_PORT",
        ),
        from_horovodrun,
    ),
    # RANK and WORLD_SIZE are also set by hand and by other tools.
    Source(
        "torchrun",
        ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
        from_torchrun,
    ),
    Source(
        "mpirun (Open MPI)",
        (
            "OMPI_COMM_WORLD_RANK",
            "OMPI_COMM_WORLD_SIZE",
            "OMPI_COMM_WORLD_LOCAL_RANK",
            "OMPI_COMM_WORLD_LOCAL_SIZE",
        ),
        from_open_mpi,
    ),
    Source("mpirun (MPICH)", ("MPI_LOCALRANKID", "MPI_LOCALNRANKS"), from_mpich),
    # Not SLURM_PROCID and SLURM_NTASKS: a batch script has them, too, and is no rank.
    Source("srun", ("SLURM_STEP_NUM_TASKS", "SLURM_STEP_NODELIST", "SLURM_STEP_TASKS_PER_NODE"), from_srun),
    # Behind srun, which sets them as well.
    Source("mpirun (MPICH)", ("PMI_RANK", "PMI_SIZE", "PMI_FD"), from_mpich),
    # srun's ranks may have been given it, as their secret; alone it says nothing.
    Source("hipress run", ("HIPRESS_JOB_TOKEN",), from_hipress_run),
)

__all__ = ["SOURCES", "Rendezvous", "Source", "resolve"]
