# SPDX-License-Identifier: Apache-2.0
"""The rendezvous of Slurm's srun, through PMIx or PMI if srun offers them (`--mpi=pmix`, `--mpi=pmi2`). Otherwise the
variables of the step determine the address of rank 0."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

from hipress.errors import InvalidArgument, TransportError
from hipress.launch.rendezvous import listening
from hipress.launch.rendezvous.meeting import meet, next_meeting
from hipress.launch.rendezvous.place import Place, Rendezvous
from hipress.launch.rendezvous.pmi import PmiStore
from hipress.launch.rendezvous.pmix import PmixStore
from hipress.launch.rendezvous.variables import Variables

#: Ports for steps without reserved ports. They are above the ports that Linux gives to outgoing connections.
_PORTS = range(61001, 65536)


def place_in_srun(environ: Mapping[str, str]) -> Place:
    """Reads the place from the variables that srun sets for the tasks of a step."""
    variables = Variables("srun", environ)
    size = variables.integer("SLURM_STEP_NUM_TASKS", 1, None, "the number of ranks, at least 1")
    rank = variables.integer("SLURM_PROCID", 0, size - 1, f"a rank from 0 to {size - 1}")
    local_size = _tasks_here(variables, size)
    local_rank = variables.integer(
        "SLURM_LOCALID", 0, local_size - 1, f"a rank from 0 to {local_size - 1} on this host"
    )
    return Place(rank, size, local_rank, local_size)


def from_srun(environ: Mapping[str, str], timeout: float) -> Rendezvous:
    """Reads the variables that srun sets for the tasks of a step."""
    variables = Variables("srun", environ)
    place = place_in_srun(environ)
    if "PMIX_NAMESPACE" not in environ and "PMI_FD" not in environ:
        return _implied(variables, place)
    return meet(
        PmixStore(environ, place.rank) if "PMIX_NAMESPACE" in environ else PmiStore(variables, place.rank),
        place,
        source="srun",
        prefix="hipress-",
        listen_to_hosts=lambda: listening.outward(environ),
        timeout=timeout,
    )


def _tasks_here(variables: Variables, size: int) -> int:
    """Number of tasks on this host, from a text such as "2(x3),1": three hosts with two tasks, one host with one."""
    expected = f'tasks per host, such as "2(x3),1", {size} in all'
    text = variables.text("SLURM_STEP_TASKS_PER_NODE", expected)
    tasks: list[int] = []
    for part in text.split(","):
        found = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part)
        if found is None:
            raise variables.bad("SLURM_STEP_TASKS_PER_NODE", expected)
        tasks += [int(found[1])] * int(found[2] or 1)
    if sum(tasks) != size:
        raise variables.bad("SLURM_STEP_TASKS_PER_NODE", expected)
    return tasks[variables.integer("SLURM_NODEID", 0, len(tasks) - 1, f"a host from 0 to {len(tasks) - 1}")]


def _implied(variables: Variables, place: Place) -> Rendezvous:
    """The rendezvous without a store: the first host of the step, and a port and a token computed from its number.

    The token is a secret only if the user has set HIPRESS_JOB_TOKEN; otherwise it only distinguishes steps.
    """
    environ = variables.environ
    host = "127.0.0.1" if place.on_one_host else _first_host(variables)
    step = "/".join(
        [
            environ.get("SLURM_CLUSTER_NAME", ""),
            variables.text("SLURM_JOB_ID", "the job's number"),
            variables.text("SLURM_STEP_ID", "the step's number"),
            str(next_meeting()),
        ]
    )
    # A job of one rank takes any free port: users may start several such jobs in one step.
    port = 0 if place.size == 1 else _port(variables, step)
    token = hashlib.sha256(step.encode()).hexdigest()
    if place.rank != 0:
        return Rendezvous(*place, host, port, None, token, "srun")
    if not place.on_one_host and environ.get("SLURM_NODEID") != "0":
        raise InvalidArgument(
            f"rank 0 is not on {host}, the first host of SLURM_STEP_NODELIST, where the others look for it: expected "
            f"srun without --distribution=arbitrary, or with --mpi=pmix or --mpi=pmi2, by which ranks find each other."
        )
    try:
        listener = listening.towards(host, "SLURM_STEP_NODELIST", port)
    except TransportError as error:
        raise TransportError(
            f"{error}. Port {port} follows from the numbers of job and step; srun --resv-ports=1 reserves a free one, "
            f"and with --mpi=pmix or --mpi=pmi2 none is needed."
        ) from error
    host, port = listener.getsockname()[:2]
    return Rendezvous(*place, host, port, listener.detach(), token, "srun")


def _first_host(variables: Variables) -> str:
    """The first host of a text such as "node[3-5,9],other": node3."""
    expected = 'host names, such as "node[3-5,9],other"'
    text = variables.text("SLURM_STEP_NODELIST", expected)
    found = re.match(r"([^\[\],]+)(?:\[(\d+)[^\]]*\]([^\[\],]*))?(?:,|$)", text)
    if found is None:
        raise variables.bad("SLURM_STEP_NODELIST", expected)
    return "".join(part for part in found.groups() if part)


def _port(variables: Variables, step: str) -> int:
    if "SLURM_STEP_RESV_PORTS" in variables.environ:
        expected = "ports that srun --resv-ports has reserved, such as 12000-12003"
        found = re.match(r"\d+", variables.text("SLURM_STEP_RESV_PORTS", expected))
        if found is None or not 1 <= int(found[0]) <= 65535:
            raise variables.bad("SLURM_STEP_RESV_PORTS", expected)
        return int(found[0])
    return _PORTS[int.from_bytes(hashlib.sha256(step.encode()).digest()[:4], "big") % len(_PORTS)]
