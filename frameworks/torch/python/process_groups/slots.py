# SPDX-License-Identifier: Apache-2.0
"""The programs of a layout, which the core runs, and the collectives between two runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from hipress._library import load_core
from hipress.torch.process_groups import group_calls
from hipress.torch.process_groups.arenas import Arenas
from hipress.torch.process_groups.dtypes import CORE_NAMES
from hipress.torch.process_groups.group_calls import Group, Work
from hipress.torch.process_groups.layout import HEADER_BYTES, Layout, Partition, payload_room
from hipress.torch.process_groups.ranks import Ranks
from hipress.torch.process_groups.side import Contribution, Side
from hipress.torch.process_groups.states.residuals import key_text

if TYPE_CHECKING:
    from hipress._core import Codec, Slot, SlotProgram

_core = load_core()  # once: several threads use it


@dataclass(frozen=True)
class ExactSlots:
    """Values without a codec, which travel in a slot for each owner."""

    count: int
    dtype: torch.dtype
    scaled: bool
    """They have the average's factor already."""


def slots_of(
    layout: Layout,
    exact: Sequence[ExactSlots],
    ranks: Ranks,
    *,
    portion_bytes: int,
    side: Side,
    arenas: Arenas,
) -> list[Slots]:
    """The slots of a layout, in portions that travel one after the other, the same ones on all ranks.

    `exact`: values without a codec; each is a tensor behind those of the layout. `portion_bytes`: as in GroupOptions,
    which all ranks compare, because ranks with other portions would start other collectives. `side`: where the ranks
    compute. `arenas`: the memory.
    """
    portions: list[tuple[Ranks, list[Slot]]] = []
    if exact:
        portions.append((ranks, []))
    for tensor, values in enumerate(exact, len(layout.tensors)):
        for owner, (first, count) in enumerate(_core.split_elements(values.count, ranks.world)):
            portions[0][1].append(_exact_slot(values, tensor, owner, first, count))
    used = sum(_bytes(slot) for _, portion in portions for slot in portion)
    # A program has one topology.
    for topology in dict.fromkeys(["", *(tensor.topology for tensor in layout.tensors)]):
        for partition in layout.partitions:
            if layout.tensors[partition.tensor].topology != topology:
                continue
            by = ranks.by(topology)
            if not portions or portions[-1][0] != by or used >= portion_bytes:
                portions.append((by, []))
                used = 0
            slot = _slot(layout, partition)
            portions[-1][1].append(slot)
            used += _bytes(slot)
    return [Slots(by.program(portion), side, arenas) for by, portion in portions or [(ranks, [])]]


def _bytes(slot: Slot) -> int:
    return HEADER_BYTES + slot.payload_bytes


def shard_slots(
    shards: Sequence[tuple[str, int, Codec]],
    dtype: torch.dtype,
    ranks: Ranks,
    *,
    side: Side,
    arenas: Arenas,
) -> Slots:
    """For a sum of which each rank gets its own shards, which are not encoded again: slots for the shards of rank 0,
    then those of rank 1, and so on.

    `shards`: name, elements and codec, the same on all ranks. `dtype`: of all of them. `arenas`: the memory.
    """
    slots = []
    for owner in range(ranks.world):
        for number, shard in enumerate(shards):
            slot = shard_slot(shard, owner, dtype, again=False)
            slot.tensor, slot.first_element = owner * len(shards) + number, owner * slot.count
            slots.append(slot)
    return Slots(ranks.program(slots), side, arenas)


def shard_slot(shard: tuple[str, int, Codec | None], owner: int, dtype: torch.dtype, *, again: bool) -> Slot:
    """The slot of a whole shard: name, elements and codec; without a codec it travels as it is, and is not counted.
    `again`: ranks may encode what they have received, with the same codec."""
    name, count, codec = shard
    own = _core.create_codec("none") if codec is None else codec
    slot: Slot = _core.Slot(own, own.for_aggregate() if again else None)
    slot.name, slot.count, slot.owner = name, count, owner
    slot.number, slot.dtype = _core.number_of_name(name), CORE_NAMES[dtype]
    slot.counted = codec is not None
    slot.raw, slot.payload_bytes = (True, dtype.itemsize * count) if codec is None else payload_room(own, count, dtype)
    return slot


class Slots:
    """Slots that travel together. `arenas`: the memory of their collectives."""

    def __init__(self, program: SlotProgram, side: Side, arenas: Arenas) -> None:
        self._side, self._arenas = side, arenas
        self._runs = side.runs(program)
        self._hops = program.hops
        self._start = group_calls.all_to_all if program.is_all_to_all else group_calls.exchange

    @property
    def runs(self) -> range:
        """The numbers of the runs; between two of them is a hop."""
        return range(len(self._hops) + 1)

    @property
    def arena_bytes(self) -> int:
        """The memory of one batch."""
        return self._runs.program.arena_bytes

    def run(self, number: int, given: Contribution, arena: torch.Tensor) -> None:
        """What this rank computes when the hop before is done."""
        self._runs.run(number, given, arena)

    def hop(self, number: int, arena: torch.Tensor, group: Group) -> Work:
        """Starts what follows run `number`: the ranks exchange messages."""
        hop = self._hops[number]
        given = arena[hop.send_at : hop.send_at + sum(hop.sent)]
        output = arena[hop.receive_at : hop.receive_at + sum(hop.received)]
        self._side.before_collective()
        return self._start(group, output, given, hop.received, hop.sent)

    def sent(self, number: int) -> Sequence[int]:
        """Bytes of compressed values that each rank gets from this one after run `number`."""
        counted: Sequence[int] = self._hops[number].counted
        return counted

    def take(self, step: int) -> torch.Tensor:
        """Memory for one batch; its bytes are those of an earlier one. It may wait: see Arenas."""
        return self._arenas.take(self.arena_bytes, step, self._runs.prepare)

    def give_back(self, arena: torch.Tensor, changes: Any) -> None:
        """No collective reads or writes it after the current stage's work so far."""
        self._runs.check(changes)
        self._arenas.give_back(arena)
        self._side.computed(self._runs)


def _slot(layout: Layout, partition: Partition) -> Slot:
    tensor = layout.tensors[partition.tensor]
    slot: Slot = _core.Slot(tensor.codec, tensor.codec.for_aggregate())
    slot.name, slot.partition = tensor.name, partition.index
    slot.tensor, slot.first, slot.count = partition.tensor, partition.first, partition.count
    slot.owner, slot.payload_bytes = partition.owner, partition.payload_bytes
    slot.dtype, slot.raw = CORE_NAMES[tensor.dtype], partition.raw
    slot.number = _core.number_of_name(tensor.name)
    slot.first_element = tensor.first + partition.first
    slot.worker_key = key_text(tensor.name, "worker", slot.first_element, partition.count)
    slot.aggregator_key = key_text(tensor.name, "aggregator", slot.first_element, partition.count)
    return slot


def _exact_slot(values: ExactSlots, tensor: int, owner: int, first: int, count: int) -> Slot:
    none = _core.create_codec("none")
    slot: Slot = _core.Slot(none, none)
    slot.name, slot.partition = "values without a codec", owner
    slot.tensor, slot.first, slot.count = tensor, first, count
    slot.owner, slot.payload_bytes = owner, values.dtype.itemsize * count
    slot.dtype, slot.raw, slot.scaled = CORE_NAMES[values.dtype], True, values.scaled
    slot.counted = False
    return slot
