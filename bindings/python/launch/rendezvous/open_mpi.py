# SPDX-License-Identifier: Apache-2.0
"""Open MPI's mpirun, whose ranks meet through PMIx. No MPI is used: only what mpirun's daemons offer any process."""

from __future__ import annotations

from collections.abc import Mapping

from hipress.launch.rendezvous import listening
from hipress.launch.rendezvous.meeting import meet
from hipress.launch.rendezvous.place import Rendezvous
from hipress.launch.rendezvous.pmix import PmixStore
from hipress.launch.rendezvous.variables import Variables


def from_open_mpi(environ: Mapping[str, str], timeout: float) -> Rendezvous:
    """What Open MPI's mpirun sets."""
    place = Variables("mpirun (Open MPI)", environ).place(
        "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"
    )
    return meet(
        PmixStore(environ, place.rank),
        place,
        source="mpirun (Open MPI)",
        prefix="hipress-",
        listen_to_hosts=lambda: listening.outward(environ),
        timeout=timeout,
    )
