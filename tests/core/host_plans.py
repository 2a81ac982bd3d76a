# SPDX-License-Identifier: Apache-2.0
"""Plans of slots on the processor, of NumPy arrays. A call raises the error that it has found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hipress import _core

DEVICE = _core.HostDevice()
QUEUE = _core.SlotQueue(DEVICE)
#: NumPy has no bfloat16, so int16 stands for it.
_CORE_NAMES = {"int16": "bfloat16"}


def new_table() -> _core.SlotStateTable:
    return _core.SlotStateTable(DEVICE)


def new_changes() -> _core.SlotChanges:
    return _core.SlotChanges(DEVICE)


def settle(changes: _core.SlotChanges) -> bool:
    return changes.settle(QUEUE)


def _values(arrays: Sequence[np.ndarray]) -> list[tuple[int, str, int]]:
    assert all(array.flags.c_contiguous for array in arrays)
    return [(array.ctypes.data, _CORE_NAMES.get(array.dtype.name, array.dtype.name), array.size) for array in arrays]


def _place(memory: np.ndarray) -> tuple[int, int]:
    return memory.ctypes.data, memory.nbytes


class HostPlan:
    """A SlotPlan."""

    def __init__(self, slots: Sequence[_core.Slot], rank: int, world: int, whole: bool) -> None:
        self._plan = _core.SlotPlan(slots, rank, world, whole, DEVICE)
        self.outward_bytes, self.inward_bytes = self._plan.outward_bytes, self._plan.inward_bytes
        self.block_bytes = self._plan.block_bytes

    def encode(
        self,
        tensors: Sequence[np.ndarray],
        states: _core.SlotStateTable,
        seed: int,
        step: int,
        outward: np.ndarray,
        changed: _core.SlotChanges,
    ) -> None:
        self._plan.encode(QUEUE, _values(tensors), states, seed, step, _place(outward), changed)
        self._ended(changed)

    def average(
        self,
        tensors: Sequence[np.ndarray],
        states: _core.SlotStateTable,
        seed: int,
        step: int,
        factor: float,
        inward: np.ndarray,
        changed: _core.SlotChanges,
    ) -> None:
        self._plan.average(QUEUE, _values(tensors), states, seed, step, factor, _place(inward), changed)
        self._ended(changed)

    def decode(self, tensors: Sequence[np.ndarray], outward: np.ndarray, changed: _core.SlotChanges) -> None:
        self._plan.decode(QUEUE, _values(tensors), _place(outward), changed)
        self._ended(changed)

    def average_whole(
        self, tensors: Sequence[np.ndarray], factor: float, outward: Any, inward: Any, changed: _core.SlotChanges
    ) -> None:
        self._plan.average_whole(QUEUE, _values(tensors), factor, _place(outward), _place(inward), changed)
        self._ended(changed)

    def _ended(self, changed: _core.SlotChanges) -> None:
        self._plan.check(QUEUE, changed)
        self._plan.raise_error()
