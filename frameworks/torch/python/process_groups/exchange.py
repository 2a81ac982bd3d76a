# SPDX-License-Identifier: Apache-2.0
"""What ranks do to average values that travel encoded. Each of the three parts runs in a thread of its own."""

from __future__ import annotations

from collections.abc import Sequence

from hipress.torch.process_groups import group_calls
from hipress.torch.process_groups.arenas import Arenas
from hipress.torch.process_groups.batch import Batch, Portion, has_factor
from hipress.torch.process_groups.group_calls import Group
from hipress.torch.process_groups.layout import Layout
from hipress.torch.process_groups.ranks import Ranks
from hipress.torch.process_groups.side import Contribution, Side
from hipress.torch.process_groups.slots import ExactSlots, Slots, slots_of
from hipress.torch.process_groups.states.residuals import Residuals

#: The memory of collectives in flight, in portions: while messages are on their way, ranks encode the next ones.
_PORTIONS = 16


class Exchange:
    """The ranks of a group average the values of a batch, by the program that the core makes of the topology's task
    graph: this rank computes, the ranks exchange messages, and so on. Values without a codec travel in the same
    messages.

    Every collective is an all-to-all, or an exchange between few ranks. Gloo's all-gather would copy what it collects
    once more.

    Arguments:
        exchange, collect: two groups of these ranks, for the first hop and for the later ones. Each thread has one, so
            that collectives start in the same order on all ranks, whatever else the program does with its groups.
        seed: of random rounding, and different on every rank that averages the same tensors.
        portion_bytes: as in GroupOptions; the same on all ranks.
        side: where the ranks compute.
    """

    def __init__(
        self,
        exchange: Group,
        collect: Group,
        ranks: Ranks,
        *,
        seed: int,
        portion_bytes: int,
        side: Side,
    ) -> None:
        self._exchange, self._collect = exchange, collect
        self.ranks = ranks
        self._seed = seed
        self._portion_bytes = portion_bytes
        self._side = side
        self._arenas = Arenas(side, _PORTIONS * portion_bytes)
        self.residuals = Residuals(side)
        #: What this rank has given to collectives of bytes, by the rank that gets it; exact values are not counted.
        self.sent_to = [0] * ranks.world
        self._slots: dict[tuple[Layout, tuple[ExactSlots, ...]], Sequence[Slots]] = {}
        self._step = -1

    # First thread.
    def split(self, batch: Batch) -> Sequence[Portion]:
        """The portions of the batch, which pass the three parts one after the other."""
        if batch.step != self._step:
            self._arenas.forget_unused(batch.step - 1)
            self._step = batch.step
        # In an allgather every rank would have to get all of them from all others. Between two ranks that is as many
        # bytes as the group's own sum, and a collective less.
        alone = not batch.values or (self.ranks.is_whole and self.ranks.world > 2)
        exact: tuple[ExactSlots, ...] = ()
        for values in batch.together:
            scaled = alone or not self.ranks.is_direct or has_factor(values.dtype)
            if scaled:
                values.mul_(batch.factor)
            if not alone:
                exact = (*exact, ExactSlots(values.numel(), values.dtype, scaled))
                batch.values.append(self._side.values(values))
        portions = [Portion(batch, None)]
        if batch.values:
            key = (batch.layout, exact)
            if key not in self._slots:
                self._slots[key] = slots_of(
                    *key,
                    self.ranks,
                    portion_bytes=self._portion_bytes,
                    side=self._side,
                    arenas=self._arenas,
                )
            portions = [Portion(batch, slots) for slots in self._slots[key]]
            tensors, table = self._side.tensors(batch.values), self.residuals.table
            batch.given = Contribution(tensors, table, self._seed, batch.step, batch.factor, batch.changes)
        portions[0].alone = batch.together if alone else ()
        batch.split(portions)
        return portions

    def encode(self, portion: Portion) -> None:
        """Sends what this rank contributes."""
        if portion.alone:
            self._side.before_collective()
            portion.alone_works = [group_calls.all_reduce(self._exchange, values) for values in portion.alone]
        if portion.slots is None:
            return
        portion.arena = portion.slots.take(portion.batch.step)
        self._run(portion, 0)
        self._hop(portion, 0, self._exchange)

    # Second thread.
    def average(self, portion: Portion) -> None:
        """Waits for the others' contributions. An owner sends the average of its shares, and others partial sums. A
        portion with one hop goes without it."""
        if portion.work is not None:
            portion.work.wait()
        if portion.slots is None:
            return
        for number in portion.slots.runs[1:-1]:
            self._run(portion, number)
            self._hop(portion, number, self._collect)
            if number != portion.slots.runs[-2]:
                portion.work.wait()

    # Third thread.
    def decode(self, portion: Portion) -> None:
        """Waits for the averages, and writes them to the batch's values; waits for the exact ones."""
        if portion.work is not None:
            portion.work.wait()
        if portion.slots is not None:
            assert portion.arena is not None
            if len(portion.slots.runs) > 1:
                self._run(portion, portion.slots.runs[-1])
            portion.slots.give_back(portion.arena, portion.batch.changes)
            portion.arena = None
        for work, values in zip(portion.alone_works, portion.alone, strict=True):
            work.wait()
            self._side.look(values, portion.batch.changes)
        portion.work, portion.alone_works = None, ()

    def drop(self, portion: Portion) -> None:
        """The portion has failed."""
        if portion.arena is not None:
            self._arenas.drop(portion.arena)
            portion.arena = None

    def _run(self, portion: Portion, number: int) -> None:
        batch, slots = portion.batch, portion.slots
        assert slots is not None
        assert portion.arena is not None
        assert batch.given is not None
        slots.run(number, batch.given, portion.arena)

    def _hop(self, portion: Portion, number: int, group: Group) -> None:
        slots = portion.slots
        assert slots is not None
        assert portion.arena is not None
        if number + 1 == len(slots.runs):
            return
        self.sent_to = [before + size for before, size in zip(self.sent_to, slots.sent(number), strict=True)]
        portion.work = slots.hop(number, portion.arena, group)
