# SPDX-License-Identifier: Apache-2.0
"""MPICH's mpirun (Hydra; Intel MPI's and MVAPICH's, too), whose ranks meet through PMI. No MPI is used."""

from __future__ import annotations

from collections.abc import Mapping

from hipress.launch.rendezvous import listening
from hipress.launch.rendezvous.meeting import meet
from hipress.launch.rendezvous.place import Rendezvous
from hipress.launch.rendezvous.pmi import PmiStore
from hipress.launch.rendezvous.variables import Variables


def from_mpich(environ: Mapping[str, str], timeout: float) -> Rendezvous:
    """What Hydra sets."""
    variables = Variables("mpirun (MPICH)", environ)
    place = variables.place("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS")
    return meet(
        PmiStore(variables, place.rank),
        place,
        source="mpirun (MPICH)",
        prefix="hipress-",
        listen_to_hosts=lambda: listening.outward(environ),
        timeout=timeout,
    )
