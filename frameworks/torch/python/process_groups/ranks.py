# SPDX-License-Identifier: Apache-2.0
"""The ranks of a process group, and what their topology makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from hipress._library import load_core

if TYPE_CHECKING:
    from hipress._core import Slot, SlotProgram

_core = load_core()  # once: several threads use it


@dataclass(frozen=True)
class Ranks:
    """The ranks of a group, and how they average."""

    rank: int
    world: int
    topology: str = "ps"
    hosts: tuple[int, ...] = ()
    """Of each rank, with a hierarchical topology."""

    @property
    def is_direct(self) -> bool:
        """Whether no rank sends a partial sum, which values without a codec are in their own type."""
        return self.topology in ("ps", "allgather")

    @property
    def is_whole(self) -> bool:
        """Whether every rank averages all values, and no rank owns any."""
        return self.topology == "allgather"

    def owner(self, share: int) -> int:
        """The owner of a partition with this number. With hosts the topology finds it among them."""
        return share if self.hosts else share % self.world

    def encoders(self, owner: int) -> tuple[Sequence[int], int]:
        """The ranks that encode gradients or partial sums of an owner's partition, and the rank that encodes the
        average, or -1."""
        return _encoders(self.topology, self.world, owner, self.hosts)

    def program(self, slots: Sequence[Slot]) -> SlotProgram:
        """The average of the slots on this rank. Raises InvalidArgument."""
        made: SlotProgram = _core.SlotProgram(slots, self.rank, self.world, self.topology, self.hosts)
        return made


@cache
def _encoders(topology: str, world: int, owner: int, hosts: tuple[int, ...]) -> tuple[Sequence[int], int]:
    found: tuple[Sequence[int], int] = _core.encoders(topology, world, owner, hosts)
    return found
