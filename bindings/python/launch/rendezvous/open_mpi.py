# SPDX-License-Identifier: Apache-2.0
"""The rendezvous of Open MPI's mpirun, through the PMIx of mpirun's daemons. HiPress does not use MPI."""

from __future__ import annotations

from collections.abc import Mapping

from hipress.launch.rendezvous import listening
from hipress.launch.rendezvous.meeting import meet
from hipress.launch.rendezvous.place import Place, Rendezvous
from hipress.launch.rendezvous.pmix import PmixStore
from hipress.launch.rendezvous.variables import Variables


def place_in_open_mpi(environ: Mapping[str, str]) -> Place:
    """Reads the place from the variables of Open MPI's mpirun."""
    return Variables("mpirun (Open MPI)", environ).place(
        "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"
    )


def from_open_mpi(environ: Mapping[str, str], timeout: float) -> Rendezvous:
    """Reads the variables of Open MPI's mpirun."""
    place = place_in_open_mpi(environ)
    return meet(
        PmixStore(environ, place.rank),
        place,
        source="mpirun (Open MPI)",
        prefix="hipress-",
        listen_to_hosts=lambda: listening.outward(environ),
        timeout=timeout,
    )
