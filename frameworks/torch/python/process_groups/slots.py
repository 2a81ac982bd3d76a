# SPDX-License-Identifier: Apache-2.0
"""The slots of a layout for the core, which encodes, averages and decodes all of them in one call; and the memory of
the collectives, which every step uses again: fresh memory costs a page fault for every 4 KiB.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from hipress._library import load_core
from hipress.torch.process_groups.dtypes import CORE_NAMES
from hipress.torch.process_groups.layout import HEADER_BYTES, Layout, Partition, payload_room
from hipress.torch.process_groups.options import GroupOptions
from hipress.torch.process_groups.side import HostSide, Side
from hipress.torch.process_groups.states.residuals import key_text

if TYPE_CHECKING:
    from hipress._core import Codec, Slot

_core = load_core()  # once: several threads use it


@dataclass(frozen=True)
class Memory:
    """The memory that the collectives of one batch send and fill; core/slots/slot_blocks.h describes it."""

    outward: torch.Tensor
    inward: torch.Tensor


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
    *,
    rank: int,
    world: int,
    whole: bool,
    numbers: Mapping[str, int],
    portion_bytes: int = GroupOptions.portion_bytes,
    side: Side | None = None,
) -> list[Slots]:
    """The slots of a layout, in portions that travel one after the other, the same ones on all ranks.

    `exact`: values without a codec; each is a tensor behind those of the layout. `numbers`: of tensors, by name, for
    random rounding. `portion_bytes`: as in GroupOptions, which all ranks compare, because ranks with other portions
    would start other collectives. `side`: where the ranks compute; None: on the processor.
    """
    side = HostSide() if side is None else side
    portions = [_Portion(world)]
    for tensor, values in enumerate(exact, len(layout.tensors)):
        for owner, (first, count) in enumerate(_core.split_elements(values.count, world)):
            portions[0].add(_exact_slot(values, tensor, owner, first, count), counted=False)
    for partition in layout.partitions:
        if portions[-1].bytes >= portion_bytes:
            portions.append(_Portion(world))
        portions[-1].add(_slot(layout, partition, numbers), counted=True)
    return [Slots(portion, rank=rank, world=world, whole=whole, side=side) for portion in portions]


#: Memory that no batch uses, with the mark of the work that used it last.
Free = list[tuple[Memory, Any]]


def shard_slots(
    shards: Sequence[tuple[str, int, Codec]],
    dtype: torch.dtype,
    first_number: int,
    *,
    rank: int,
    world: int,
    side: Side,
    free: Free,
) -> Slots:
    """For a sum of which each rank gets its own shards, which are not encoded again: slots for the shards of rank 0,
    then those of rank 1, and so on.

    `shards`: name, elements and codec, the same on all ranks. `dtype`: of all of them. `first_number`: of the first
    one, for random rounding. `free`: one list for all slots of shards with the same numbers of elements, codecs and
    types, which share memory.
    """
    portion = _Portion(world)
    for owner in range(world):
        for number, (name, count, codec) in enumerate(shards):
            slot: Slot = _core.Slot(codec, None)
            slot.name, slot.tensor, slot.count = name, owner * len(shards) + number, count
            slot.owner, slot.number, slot.first_element = owner, first_number + number, owner * count
            slot.dtype = CORE_NAMES[dtype]
            slot.raw, slot.payload_bytes = payload_room(codec, count, dtype)
            portion.add(slot, counted=True)
    return Slots(portion, rank=rank, world=world, whole=False, side=side, free=free)


class _Portion:
    """Slots, and the bytes that they need in the block of each owner."""

    def __init__(self, world: int) -> None:
        self.slots: list[Slot] = []
        self.sizes = [0] * world
        #: Without those of values without a codec.
        self.counted = [0] * world

    @property
    def bytes(self) -> int:
        return sum(self.sizes)

    def add(self, slot: Slot, *, counted: bool) -> None:
        size = HEADER_BYTES + slot.payload_bytes
        slot.padding = -size % _core.SLOT_ALIGNMENT
        size += slot.padding
        slot.offset = self.sizes[slot.owner]
        self.slots.append(slot)
        self.sizes[slot.owner] += size
        self.counted[slot.owner] += size if counted else 0


class Slots:
    """Slots that travel together, and the memory of their collectives."""

    def __init__(
        self, portion: _Portion, *, rank: int, world: int, whole: bool, side: Side, free: Free | None = None
    ) -> None:
        self._side = side
        self.plan = side.plan(portion.slots, rank, world, whole)
        #: For the collectives: bytes for each rank of what lies outward, and inward.
        self.outward_sizes = _for_others(portion.sizes, rank, whole)
        self.inward_sizes = _for_others([portion.sizes[0 if whole else rank]] * world, rank)
        #: Bytes of compressed values that each rank gets from this one: contributions, then averages.
        self.counted = (
            _for_others(portion.counted, rank, whole),
            [0] * world if whole else _for_others([portion.counted[rank]] * world, rank),
        )
        #: Whether any rank has bytes for another one; the same on all ranks.
        self.travels = world > 1 and portion.bytes > 0
        self._free: Free = [] if free is None else free
        self._last_step = -1

    def take(self, step: int) -> Memory:
        """Memory for one batch; its bytes are those of an earlier one."""
        self._last_step = step
        if self._free:
            memory, mark = self._free.pop()
            self._side.wait_for(mark)
            return memory
        return Memory(*self._side.memory(self.plan))

    def give_back(self, memory: Memory, changes: Any) -> None:
        """No collective reads or writes it after the current stage's work so far."""
        self.plan.check(changes)
        self._free.append((memory, self._side.settled()))
        self._side.computed(self.plan)

    def forget_unless_used(self, step: int) -> None:
        """Frees the memory if no batch has needed it since `step`: DistributedDataParallel forms other buckets after
        its first step."""
        if self._last_step < step:
            self._free.clear()


def _for_others(sizes: Sequence[int], rank: int, whole: bool = False) -> list[int]:
    """With `whole` every rank gets the first block."""
    return [0 if each == rank else sizes[0 if whole else each] for each in range(len(sizes))]


def _slot(layout: Layout, partition: Partition, numbers: Mapping[str, int]) -> Slot:
    tensor = layout.tensors[partition.tensor]
    slot: Slot = _core.Slot(tensor.codec, tensor.codec.for_aggregate())
    slot.name, slot.partition = tensor.name, partition.index
    slot.tensor, slot.first, slot.count = partition.tensor, partition.first, partition.count
    slot.owner, slot.payload_bytes = partition.owner, partition.payload_bytes
    slot.dtype, slot.raw = CORE_NAMES[tensor.dtype], partition.raw
    slot.number = numbers[tensor.name]
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
    return slot
