# SPDX-License-Identifier: Apache-2.0
"""Encoded shards that each rank sends to all others, and that all ranks decode, each rank its own ones, too.

The core's topologies average. This uses the two parts of topology "ps" that add nothing: a rank that owns no partition
encodes its values (run 0), and decodes the messages of the owners (run 2). Between the two is an all-gather.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from hipress.torch.process_groups import group_calls
from hipress.torch.process_groups.arenas import Arenas
from hipress.torch.process_groups.group_calls import Group, Work
from hipress.torch.process_groups.ranks import Ranks
from hipress.torch.process_groups.side import Contribution, Side
from hipress.torch.process_groups.slots import shard_slot

if TYPE_CHECKING:
    from hipress._core import Codec, Slot

_ENCODE, _DECODE = 0, 2


class GatheredShards:
    """The messages of all ranks' shards of some tensors; one rank's messages lie in one block of the arena.

    `shards`: name, elements and codec, the same on all ranks; without a codec a shard travels as it is. `dtype`: of all
    of them. `arenas`: the memory.
    """

    def __init__(
        self,
        shards: Sequence[tuple[str, int, Codec | None]],
        dtype: torch.dtype,
        ranks: Ranks,
        *,
        side: Side,
        arenas: Arenas,
    ) -> None:
        self._side, self._arenas = side, arenas
        self._world = ranks.world
        first = [ranks.rank * count for _, count, _ in shards]
        # In these programs this rank has the number behind those of the ranks that send, so that it owns nothing.
        sent = Ranks(1, 2, "ps").program(_slots(shards, 0, dtype, first))
        gathered = Ranks(ranks.world, ranks.world + 1, "ps").program(
            [slot for rank in range(ranks.world) for slot in _slots(shards, rank, dtype, first)]
        )
        self._encoding, self._decoding = side.runs(sent), side.runs(gathered)
        self._counted: int = sent.hops[0].counted[0]
        self._bytes: int = gathered.arena_bytes
        block: int = sent.arena_bytes
        self._own = slice(ranks.rank * block, (ranks.rank + 1) * block)
        # The all-gather's output is the arena: each block lies where the program receives it.
        assert gathered.hops[1].receive_at == 0
        assert self._bytes == ranks.world * block

    @property
    def sent(self) -> int:
        """Bytes of compressed values that this rank sends to the others in one all-gather."""
        return (self._world - 1) * self._counted

    def take(self, step: int) -> torch.Tensor:
        """Memory for one all-gather: see Slots."""
        return self._arenas.take(self._bytes, step, self._decoding.prepare)

    def encode(self, given: Contribution, arena: torch.Tensor) -> None:
        """Encodes this rank's shards. Raises what the codec refuses, on a GPU later."""
        self._encoding.run(_ENCODE, given, arena[self._own])
        self._encoding.check(given.changes)
        self._side.computed(self._encoding)

    def gather(self, arena: torch.Tensor, group: Group) -> Work:
        """Starts the all-gather."""
        self._side.before_collective()
        return group_calls.all_gather(group, arena, arena[self._own])

    def decode(self, given: Contribution, arena: torch.Tensor) -> None:
        """Decodes the shards of rank 0, then those of rank 1, and so on, into the tensors of `given`; gives the arena
        back. Raises CorruptPayload, on a GPU later; then the shard is NaN."""
        self._decoding.run(_DECODE, given, arena)
        self._decoding.check(given.changes)
        self._arenas.give_back(arena)
        self._side.computed(self._decoding)

    def drop(self, arena: torch.Tensor) -> None:
        """The all-gather has failed."""
        self._arenas.drop(arena)


def _slots(
    shards: Sequence[tuple[str, int, Codec | None]], rank: int, dtype: torch.dtype, first: Sequence[int]
) -> list[Slot]:
    slots = []
    for number, (shard, element) in enumerate(zip(shards, first, strict=True)):
        slot = shard_slot(shard, rank, dtype, again=True)
        slot.tensor, slot.first_element = rank * len(shards) + number, element
        slots.append(slot)
    return slots
