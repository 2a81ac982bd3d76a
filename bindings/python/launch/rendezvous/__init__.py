# SPDX-License-Identifier: Apache-2.0
"""Finds this process' rank and the address of rank 0 from the launcher's environment variables.

Each launcher is one `Source` in `SOURCES`; the first one whose variables are set is used. To support another launcher,
add an entry: no other code of the package knows launchers.
"""

from __future__ import annotations

import hmac
import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from hipress.launch.rendezvous.elastic_job import from_elastic_job, place_in_elastic_job
from hipress.launch.rendezvous.hipress_run import from_hipress_run, place_in_hipress_run
from hipress.launch.rendezvous.horovodrun import from_horovodrun, place_in_horovodrun
from hipress.launch.rendezvous.mpich import from_mpich, place_in_mpich
from hipress.launch.rendezvous.open_mpi import from_open_mpi, place_in_open_mpi
from hipress.launch.rendezvous.place import Place, Rendezvous
from hipress.launch.rendezvous.srun import from_srun, place_in_srun
from hipress.launch.rendezvous.torch_variables import are_ours
from hipress.launch.rendezvous.torchrun import from_torchrun, place_in_torchrun


@dataclass(frozen=True)
class Source:
    """A launcher: its name, the variables that show that it started this process, and the functions that read them."""

    name: str
    variables: tuple[str, ...]
    place: Callable[[Mapping[str, str]], Place]
    read: Callable[[Mapping[str, str], float], Rendezvous]


def resolve(environ: Mapping[str, str] = os.environ, timeout: float = 60.0) -> Rendezvous:
    """This process' place according to its launcher. If no launcher's variable is set, the job has this rank only.

    `timeout`: deadline for the launcher's store in seconds. Raises `InvalidArgument`, with the variable, if a
    launcher's variables are incomplete or wrong: otherwise every rank would train alone, which looks like success.
    Raises `Timeout` or `TransportError` if the store does not answer.
    """
    source = _source(environ)
    return _alone() if source is None else _with_secret(source, source.read(environ, timeout), environ)


def place_of(environ: Mapping[str, str]) -> Place:
    """This process' place according to its launcher, without a word to other ranks. Raises `InvalidArgument`."""
    source = _source(environ)
    return Place(0, 1, 0, 1) if source is None else source.place(environ)


def _source(environ: Mapping[str, str]) -> Source | None:
    for source in SOURCES:
        # Variables of torchrun that hipress run -H has set stand beside those of the launcher that started the ranks.
        if source.name == "torchrun" and are_ours(environ):
            continue
        if any(name in environ for name in source.variables):
            return source
    return None


def _with_secret(source: Source, place: Rendezvous, environ: Mapping[str, str]) -> Rendezvous:
    """Mixes the user's secret into the token, because other users can read most launchers' stores."""
    secret = environ.get("HIPRESS_JOB_TOKEN", "")
    if not secret or source.name.startswith("hipress run"):  # for it the variable is the token
        return place
    return replace(place, token=hmac.new(secret.encode(), place.token.encode(), "sha256").hexdigest())


def _alone() -> Rendezvous:
    """The place of a script without a launcher: the only rank of its job."""
    return Rendezvous(0, 1, 0, 1, "127.0.0.1", 0, None, secrets.token_hex(16), source="no launcher")


#: The inner launchers come first: a launcher may run within a job of Slurm or MPI, and its ranks have the variables of
#: both.
SOURCES: tuple[Source, ...] = (
    Source(
        "hipress run --elastic", ("HIPRESS_ELASTIC", "HIPRESS_ELASTIC_PROCESS"), place_in_elastic_job, from_elastic_job
    ),
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
        place_in_hipress_run,
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
        place_in_horovodrun,
        from_horovodrun,
    ),
    # Users and other tools set RANK and WORLD_SIZE, too.
    Source(
        "torchrun",
        ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
        place_in_torchrun,
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
        place_in_open_mpi,
        from_open_mpi,
    ),
    Source("mpirun (MPICH)", ("MPI_LOCALRANKID", "MPI_LOCALNRANKS"), place_in_mpich, from_mpich),
    # SLURM_PROCID and SLURM_NTASKS do not count: a batch script has them, too, but is no rank.
    Source(
        "srun", ("SLURM_STEP_NUM_TASKS", "SLURM_STEP_NODELIST", "SLURM_STEP_TASKS_PER_NODE"), place_in_srun, from_srun
    ),
    # This entry comes after srun, which sets these variables, too.
    Source("mpirun (MPICH)", ("PMI_RANK", "PMI_SIZE", "PMI_FD"), place_in_mpich, from_mpich),
    # This entry is last, because users may give the variable to srun's ranks as their secret.
    Source("hipress run", ("HIPRESS_JOB_TOKEN",), place_in_hipress_run, from_hipress_run),
)

__all__ = ["SOURCES", "Rendezvous", "Source", "place_of", "resolve"]
