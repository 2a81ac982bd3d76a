# SPDX-License-Identifier: Apache-2.0
"""The places of the ranks: which ranks share memory, which share processors, and the machines' descriptions."""

from __future__ import annotations

import os
import platform
import socket
from collections.abc import Sequence
from pathlib import Path

from hipress import _core
from hipress.secopa.online.measure.session import Session
from hipress.secopa.profile.profile import MachineDescription, RankPlace


def gather_places(session: Session) -> tuple[RankPlace, ...]:
    """The places of all ranks. A machine is one running kernel, even if its namespaces have different host names."""
    told = session.gather([_core.host_identity(), socket.gethostname(), _boot(), sorted(os.sched_getaffinity(0))])
    hosts = _named([identity for identity, *_ in told], [name for _, name, *_ in told])
    cores: dict[str, set[int]] = {}
    for _, _, machine, cpus in told:
        cores.setdefault(machine, set()).update(cpus)
    return tuple(
        RankPlace(host=host, machine=machine, cores=len(cores[machine]))
        for host, (_, _, machine, _) in zip(hosts, told, strict=True)
    )


def first_ranks(names: Sequence[str]) -> dict[str, int]:
    """The lowest rank of each host or machine."""
    first: dict[str, int] = {}
    for rank, name in enumerate(names):
        first.setdefault(name, rank)
    return first


def describe_machine(places: Sequence[RankPlace]) -> MachineDescription:
    """The description of this machine for a profile."""
    hosts, machines = ({getattr(place, kind) for place in places} for kind in ("host", "machine"))
    shared = f", {len(hosts)} hosts on {len(machines)} machine(s)" if len(hosts) > len(machines) else ""
    cores = places[0].cores
    text = f"{_processor()}, {cores} cores{shared}; {platform.system()} {platform.release()}"
    return MachineDescription(text=text, cores=cores, isa=_core.isa_level())


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8]
    except OSError:
        return socket.gethostname()


def _named(identities: Sequence[str], names: Sequence[str]) -> list[str]:
    """A distinct name for each host. Containers may have equal host names, so equal names get a number."""
    chosen: dict[str, str] = {}
    for identity, name in zip(identities, names, strict=True):
        if identity not in chosen:
            same = sum(other.partition("#")[0] == name for other in chosen.values())
            chosen[identity] = f"{name}#{same + 1}" if same else name
    return [chosen[identity] for identity in identities]


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() in ("model name", "Processor"):
                return " ".join(value.split())
    except OSError:
        pass
    return platform.machine()
