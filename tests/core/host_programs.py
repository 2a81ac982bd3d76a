# SPDX-License-Identifier: Apache-2.0
"""Programs of slots on the processor, of NumPy arrays. The ranks are in one process, so copies replace the collectives.
A run raises the error that it has found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from hipress import _core

DEVICE = _core.HostDevice()
QUEUE = _core.SlotQueue(DEVICE)
#: NumPy has no bfloat16, so int16 stands for it.
_CORE_NAMES = {"int16": "bfloat16"}
Arrays = Sequence[np.ndarray]


def new_table() -> _core.SlotStateTable:
    return _core.SlotStateTable(DEVICE)


def new_changes() -> _core.SlotChanges:
    return _core.SlotChanges(DEVICE)


def settle(changes: _core.SlotChanges) -> bool:
    return changes.settle(QUEUE)


class HostProgram:
    """A rank's program, its states and its arena."""

    def __init__(
        self, slots: Sequence[_core.Slot], rank: int, world: int, topology: str = "ps", hosts: Sequence[int] = ()
    ) -> None:
        self.program = _core.SlotProgram(slots, rank, world, topology, hosts)
        self._executor = _core.SlotExecutor(self.program, DEVICE)
        self.rank = rank
        self.hops = self.program.hops
        self.arena = np.full(self.program.arena_bytes, 0xAB, np.uint8)
        self.states = new_table()
        self.changed = new_changes()

    def run(self, number: int, tensors: Arrays, step: int, factor: float, arena: np.ndarray | None = None) -> None:
        assert all(array.flags.c_contiguous for array in tensors)
        values = [(each.ctypes.data, _CORE_NAMES.get(each.dtype.name, each.dtype.name), each.size) for each in tensors]
        memory = self.arena if arena is None else arena
        place = (memory.ctypes.data, memory.nbytes)
        seed = self.rank << 34
        self._executor.run(
            number, QUEUE, _core.SlotTensors(values), self.states, seed, step, factor, place, self.changed
        )
        self._executor.check(QUEUE, self.changed)
        self._executor.raise_error()

    def block(self, hop: int, rank: int, *, sent: bool) -> slice:
        """Where in the arena the bytes for, or of, another rank are."""
        of = self.hops[hop]
        sizes, start = (of.sent, of.send_at) if sent else (of.received, of.receive_at)
        return slice(start + sum(sizes[:rank]), start + sum(sizes[: rank + 1]))


def exchange(ranks: Sequence[HostProgram], hop: int) -> None:
    """What the collective of a hop carries; ranks whose programs have ended take no part."""
    carried = {}
    for one in ranks:
        for other in ranks:
            if hop < len(one.hops) and one.hops[hop].sent[other.rank]:
                carried[one.rank, other.rank] = one.arena[one.block(hop, other.rank, sent=True)].copy()
    for (sender, receiver), given in carried.items():
        ranks[receiver].arena[ranks[receiver].block(hop, sender, sent=False)] = given


def average(
    ranks: Sequence[HostProgram],
    tensors: Sequence[Arrays],
    step: int,
    factor: float,
    after_hop: Callable[[int], None] = lambda hop: None,
) -> None:
    """Replaces `tensors` by their averages. `after_hop` may change arenas."""
    for each in ranks:
        each.changed = new_changes()
    for number in range(1 + max(len(each.hops) for each in ranks)):
        for each in ranks:
            if number <= len(each.hops):
                each.run(number, tensors[each.rank], step, factor)
        exchange(ranks, number)
        after_hop(number)
