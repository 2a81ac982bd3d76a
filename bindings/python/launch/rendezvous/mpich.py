# SPDX-License-Identifier: Apache-2.0
"""The rendezvous of MPICH's mpirun (Hydra; also Intel MPI's and MVAPICH's), through PMI. HiPress does not use MPI."""

from __future__ import annotations

from collections.abc import Mapping

from hipress.launch.rendezvous import listening
from hipress.launch.rendezvous.meeting import meet
from hipress.launch.rendezvous.place import Place, Rendezvous
from hipress.launch.rendezvous.pmi import PmiStore
from hipress.launch.rendezvous.variables import Variables


def place_in_mpich(environ: Mapping[str, str]) -> Place:
    """Reads the place from the variables of Hydra."""
    return Variables("mpirun (MPICH)", environ).place("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS")


def from_mpich(environ: Mapping[str, str], timeout: float) -> Rendezvous:
    """Reads the variables of Hydra."""
    variables = Variables("mpirun (MPICH)", environ)
    place = place_in_mpich(environ)
    return meet(
        PmiStore(variables, place.rank),
        place,
        source="mpirun (MPICH)",
        prefix="hipress-",
        listen_to_hosts=lambda: listening.outward(environ),
        timeout=timeout,
    )
