# SPDX-License-Identifier: Apache-2.0
"""The compressed reduce-scatter and all-gather of one tensor of a graph. hipress.torch.fsdp has the same for the units
of FSDP2."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from hipress.torch.fsdp.gathered_shards import GatheredShards
from hipress.torch.process_groups.arenas import Arenas
from hipress.torch.process_groups.group_calls import Group
from hipress.torch.process_groups.ranks import Ranks
from hipress.torch.process_groups.side import Contribution, Side
from hipress.torch.process_groups.slots import shard_slots

if TYPE_CHECKING:
    from hipress._core import Codec

#: Random rounding of a rank's weights and of its gradients draws different numbers: see encodeContext() of the core.
_OF_WEIGHTS = 3
#: The graph decides how many collectives are on their way: an arena that waited for another one would wait forever.
_UNBOUNDED = 1 << 62


class Shards:
    """What the collectives of shards of one group share. `seed`: of random rounding, the same on all ranks."""

    def __init__(self, side: Side, ranks: Ranks, seed: int) -> None:
        self.side, self.ranks = side, ranks
        self.arenas = Arenas(side, _UNBOUNDED)
        self._seed = seed
        self._table = side.table()  # stays empty: these codecs have no states
        self.changes = side.changes(False)
        self._of_weights = side.changes(False)
        self._of_weights.nan_if_refused = True  # zeros would be weights like others

    def contribution(
        self, tensors: list[torch.Tensor], step: int, factor: float = 1.0, *, weights: bool = False
    ) -> Contribution:
        """The tensors of a collective, for the core."""
        values = self.side.tensors([self.side.values(each) for each in tensors])
        seed = self._seed + (self.ranks.rank * 4 + (_OF_WEIGHTS if weights else 0) << 32)
        changes = self._of_weights if weights else self.changes
        return Contribution(values, self._table, seed, step, factor, changes)


class ShardSum:
    """The sums of one tensor, of which each rank gets its shard.

    `count`: elements of a shard. Each rank encodes the shards of all others; its own values are not encoded.
    """

    def __init__(self, name: str, count: int, dtype: torch.dtype, codec: Codec, shards: Shards) -> None:
        self._shards = shards
        self._slots = shard_slots([(name, count, codec)], dtype, shards.ranks, side=shards.side, arenas=shards.arenas)

    @property
    def sent(self) -> int:
        """Bytes of compressed values that this rank sends in one reduce-scatter."""
        return sum(self._slots.sent(0)) if self._shards.ranks.world > 1 else 0

    def start(
        self, given: torch.Tensor, output: torch.Tensor, group: Group, step: int, factor: float
    ) -> Callable[[], None]:
        """Encodes and sends. Returns what receives and adds into `output`; `given` may change before it is called."""
        shards, slots = self._shards, self._slots
        rows = given.view(shards.ranks.world, -1)
        output.view(-1).copy_(rows[shards.ranks.rank])
        # The sum goes to this rank's own row, so the output is that row.
        own = [output.view(-1) if rank == shards.ranks.rank else row for rank, row in enumerate(rows)]
        with shards.side.at_once():
            arena = slots.take(step)
            contribution = shards.contribution(own, step, factor)
            slots.run(0, contribution, arena)
            work = slots.hop(0, arena, group) if shards.ranks.world > 1 else None

        def end() -> None:
            with shards.side.at_once():
                if work is not None:
                    work.wait()
                    slots.run(1, contribution, arena)
                slots.give_back(arena, shards.changes)

        return end


class ShardGather:
    """The shards of one tensor of all ranks. `count`: elements of a shard."""

    def __init__(self, name: str, count: int, dtype: torch.dtype, codec: Codec, shards: Shards) -> None:
        self._shards = shards
        self._messages = GatheredShards(
            [(name, count, codec)], dtype, shards.ranks, side=shards.side, arenas=shards.arenas
        )

    @property
    def sent(self) -> int:
        """Bytes of compressed values that this rank sends in one all-gather."""
        return self._messages.sent

    def start(self, given: torch.Tensor, output: torch.Tensor, group: Group, step: int) -> Callable[[], None]:
        """Encodes and sends. Returns what receives and decodes all ranks' shards into `output`."""
        shards, messages = self._shards, self._messages
        with shards.side.at_once():
            arena = messages.take(step)
            messages.encode(shards.contribution([given.view(-1)], step, weights=True), arena)
            work = messages.gather(arena, group)

        def end() -> None:
            with shards.side.at_once():
                work.wait()
                rows = list(output.view(shards.ranks.world, -1))
                messages.decode(shards.contribution(rows, step, weights=True), arena)

        return end
