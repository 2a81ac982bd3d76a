# SPDX-License-Identifier: Apache-2.0
"""What ranks do to average values that travel encoded. Each of the three parts runs in a thread of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hipress.torch.process_groups import group_calls
from hipress.torch.process_groups.batch import Batch, Portion
from hipress.torch.process_groups.exact_values import has_factor
from hipress.torch.process_groups.group_calls import Group
from hipress.torch.process_groups.layout import Layout
from hipress.torch.process_groups.side import Side
from hipress.torch.process_groups.slots import ExactSlots, Slots, slots_of
from hipress.torch.process_groups.states.residuals import Residuals


class Exchange:
    """The ranks of a group average the values of a batch.

    With `whole` each rank sends its encoded values to all others, and averages all of them in rank order (topology
    "allgather"). Otherwise each rank sends its encoded shares to their owners; the owner adds the decoded values in
    rank order in float32, its own values unencoded, encodes the average and sends it to all; every rank decodes the
    same bytes (topology "ps"). Values without a codec travel in the same messages.

    Every collective is an all-to-all. Gloo's all-gather would copy what it collects once more.

    Arguments:
        exchange, collect: two groups of these ranks. Each thread has one, so that collectives start in the same order
            on all ranks, whatever else the program does with its groups.
        seed: of random rounding, and different on every rank that averages the same tensors.
        numbers: of tensors, by name, for random rounding.
        portion_bytes: as in GroupOptions; the same on all ranks.
        side: where the ranks compute.
    """

    def __init__(
        self,
        exchange: Group,
        collect: Group,
        *,
        whole: bool,
        seed: int,
        numbers: Mapping[str, int],
        portion_bytes: int,
        side: Side,
    ) -> None:
        self._exchange, self._collect = exchange, collect
        self._whole = whole
        self._seed = seed
        self._numbers = numbers
        self._portion_bytes = portion_bytes
        self._side = side
        self.world: int = exchange.size()
        self.rank: int = exchange.rank()
        self.residuals = Residuals(side)
        #: What this rank has given to collectives of bytes, by the rank that gets it; exact values are not counted.
        self.sent_to = [0] * self.world
        self._slots: dict[tuple[Layout, tuple[ExactSlots, ...]], Sequence[Slots]] = {}
        self._step = -1

    # First thread.
    def split(self, batch: Batch) -> Sequence[Portion]:
        """The portions of the batch, which pass the three parts one after the other."""
        if batch.step != self._step:
            for each in self._slots.values():
                for slots in each:
                    slots.forget_unless_used(batch.step - 1)
            self._step = batch.step
        # With "whole" every rank would have to get all of them from all others: the group's own sum is better.
        alone = not batch.values or self._whole
        exact: tuple[ExactSlots, ...] = ()
        for values in batch.together:
            scaled = alone or batch.has_factor or has_factor(values.dtype)
            if scaled and not batch.has_factor:
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
                    rank=self.rank,
                    world=self.world,
                    whole=self._whole,
                    numbers=self._numbers,
                    portion_bytes=self._portion_bytes,
                    side=self._side,
                )
            portions = [Portion(batch, slots) for slots in self._slots[key]]
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
        slots, batch = portion.slots, portion.batch
        memory = portion.memory = slots.take(batch.step)
        table = self.residuals.table
        slots.plan.encode(batch.values, table, self._seed, batch.step, memory.outward, batch.changes)
        self._count(slots.counted[0])
        if slots.travels:
            self._side.before_collective()
            portion.work = group_calls.all_to_all(
                self._exchange, memory.inward, memory.outward, slots.inward_sizes, slots.outward_sizes
            )

    # Second thread.
    def average(self, portion: Portion) -> None:
        """Waits for the others' contributions. An owner sends the average of its shares."""
        if portion.work is not None:
            portion.work.wait()
        if self._whole or portion.slots is None:
            return
        slots, batch, memory = portion.slots, portion.batch, portion.memory
        assert memory is not None
        table, inward = self.residuals.table, memory.inward
        slots.plan.average(batch.values, table, self._seed, batch.step, batch.factor, inward, batch.changes)
        self._count(slots.counted[1])
        if slots.travels:
            self._side.before_collective()
            portion.work = group_calls.all_to_all(
                self._collect, memory.outward, memory.inward, slots.outward_sizes, slots.inward_sizes
            )

    # Third thread.
    def decode(self, portion: Portion) -> None:
        """Waits for the averages, and writes them to the batch's values; waits for the exact ones."""
        if portion.work is not None:
            portion.work.wait()
        if portion.slots is not None:
            slots, batch, memory = portion.slots, portion.batch, portion.memory
            assert memory is not None
            if self._whole:
                slots.plan.average_whole(batch.values, batch.factor, memory.outward, memory.inward, batch.changes)
            else:
                slots.plan.decode(batch.values, memory.outward, batch.changes)
            portion.memory = None
            slots.give_back(memory, batch.changes)
        for work, values in zip(portion.alone_works, portion.alone, strict=True):
            work.wait()
            self._side.look(values, portion.batch.changes)
        portion.work, portion.alone_works = None, ()

    def _count(self, sizes: Sequence[int]) -> None:
        self.sent_to = [before + size for before, size in zip(self.sent_to, sizes, strict=True)]
