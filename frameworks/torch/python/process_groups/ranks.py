# SPDX-License-Identifier: Apache-2.0
"""The ranks of a process group, their hosts, and what their topology makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from hipress._library import load_core
from hipress.errors import InvalidArgument
from hipress.torch.process_groups.group_calls import Group, gather_all

if TYPE_CHECKING:
    from hipress._core import Slot, SlotProgram

_core = load_core()  # once: several threads use it


def is_hierarchical(topology: str) -> bool:
    """Whether a topology depends on hosts."""
    return topology.startswith("hierarchical")


@dataclass(frozen=True)
class Ranks:
    """The ranks of a group, and how they average."""

    rank: int
    world: int
    topology: str = "auto"
    hosts: tuple[int, ...] = ()
    """Of each rank, for hierarchical topologies."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "topology", _core.resolved_topology(self.topology, self.world))

    def by(self, topology: str) -> Ranks:
        """The same ranks, which average by another topology; "": by this one."""
        return self if topology in ("", self.topology) else replace(self, topology=topology)

    @property
    def is_direct(self) -> bool:
        """Whether no rank sends a partial sum, which values without a codec are in their own type."""
        return bool(_core.is_direct(self.topology))

    @property
    def is_whole(self) -> bool:
        """Whether every rank averages all values, and no rank owns any."""
        return self.topology == "allgather"

    def owner(self, share: int) -> int:
        """The owner of a partition with this number. A hierarchical topology finds it among the hosts."""
        return share if is_hierarchical(self.topology) else share % self.world

    def encoders(self, owner: int) -> tuple[Sequence[int], int]:
        """The ranks that encode gradients or partial sums of an owner's partition, and the rank that encodes the
        average, or -1."""
        return _encoders(self.topology, self.world, owner, self._hosts)

    def program(self, slots: Sequence[Slot]) -> SlotProgram:
        """The average of the slots on this rank. Raises InvalidArgument."""
        made: SlotProgram = _core.SlotProgram(slots, self.rank, self.world, self.topology, self._hosts)
        return made

    @property
    def _hosts(self) -> tuple[int, ...]:
        return self.hosts if is_hierarchical(self.topology) else ()


@cache
def _encoders(topology: str, world: int, owner: int, hosts: tuple[int, ...]) -> tuple[Sequence[int], int]:
    found: tuple[Sequence[int], int] = _core.encoders(topology, world, owner, hosts)
    return found


@dataclass(frozen=True)
class Hosts:
    """The ranks of each host. All hosts have as many, and each rank is on one host."""

    ranks: tuple[tuple[int, ...], ...]

    def of_ranks(self) -> tuple[int, ...]:
        """The number of each rank's host."""
        numbers = {rank: number for number, host in enumerate(self.ranks) for rank in host}
        return tuple(numbers[rank] for rank in sorted(numbers))


def consecutive(world: int, ranks_per_host: int) -> Hosts:
    """As launchers number ranks: the first ones are on the first host. Raises InvalidArgument if it does not come out
    even."""
    if ranks_per_host < 1 or world % ranks_per_host != 0:
        raise InvalidArgument(
            f"topology 'hierarchical' with ranks_per_host={ranks_per_host}, but the process group has {world} ranks: "
            "give the number of ranks that each host has, the same on all hosts"
        )
    return Hosts(tuple(tuple(range(first, first + ranks_per_host)) for first in range(0, world, ranks_per_host)))


def from_groups(group: Group, host_group: dist.ProcessGroup, device: torch.device) -> Hosts:
    """From each rank's group of the ranks of its host. Collective over `group`, which takes tensors of `device`.

    Raises InvalidArgument, on all ranks of `group`, if the hosts' groups do not cover it once with groups of one size.
    """
    numbers = {rank: number for number, rank in enumerate(dist.get_process_group_ranks(group))}
    # One row per rank: 1 for its neighbours, and how many of them are not in the group.
    row = torch.zeros(group.size() + 1, dtype=torch.int64)
    for rank in dist.get_process_group_ranks(host_group):
        row[numbers.get(rank, -1)] += 1
    rows = [each.cpu() for each in gather_all(group, row.to(device))]
    hosts = [tuple(int(rank) for rank in each[:-1].nonzero().flatten()) for each in rows]
    for rank, (host, each) in enumerate(zip(hosts, rows, strict=True)):
        if int(each[-1]):
            _refuse(rank, host, "and ranks that are not in the process group")
        if rank not in host:
            _refuse(rank, host, "but not itself")
        for other in host:
            if hosts[other] != host:
                _refuse(rank, host, f"but rank {other} has {list(hosts[other])}")
        if len(host) != len(hosts[0]):
            _refuse(rank, host, f"and rank 0 has {list(hosts[0])}, which is not as many")
    return Hosts(tuple(sorted(set(hosts))))


def _refuse(rank: int, host: tuple[int, ...], what: str) -> None:
    raise InvalidArgument(
        f"topology 'hierarchical': the host's group of rank {rank} has the ranks {list(host)} of the process group, "
        f"{what}: every rank must be in the group of one host, and all hosts must have as many ranks"
    )
