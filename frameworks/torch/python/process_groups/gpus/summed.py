# SPDX-License-Identifier: Apache-2.0
"""Codecs whose encoded values are added, over a process group of GPU tensors: the calls of ../summed.py, which put work
on streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from hipress._library import load_core
from hipress.torch.process_groups.gpus.side import GpuSide, place
from hipress.torch.process_groups.group_calls import Group
from hipress.torch.process_groups.states.residuals import Floats
from hipress.torch.process_groups.summed import SumBatch, SummedAverage, key_of

if TYPE_CHECKING:
    from hipress._core import Codec, DeviceSummedTensor, SlotStateTable

_core = load_core()


@dataclass
class _Part:
    name: str
    values: Any
    """The tensor, as the core takes it."""
    agreed: torch.Tensor
    gradient: int
    """The address of the value that tells whether a rank has a gradient."""
    levels: torch.Tensor


@dataclass
class _GpuSumBatch(SumBatch):
    parts: list[_Part] = field(default_factory=list)
    changes: Any = None


class GpuSummedAverage(SummedAverage):
    """As SummedAverage; its calls put their work on the stream of the current stage of `side`. The GPU decides whether
    new states are kept."""

    def __init__(
        self, exchange: Group, collect: Group, *, seed: int, numbers: Mapping[str, int], side: GpuSide
    ) -> None:
        super().__init__(exchange, collect, seed=seed, numbers=numbers, device=side.device)
        self._side = side
        self._tensors: dict[str, DeviceSummedTensor] = {}
        self._table = side.table()

    def add(self, name: str, codec: Codec, count: int) -> None:
        """As of SummedAverage. Raises Unsupported if the GPU has no code for the codec."""
        super().add(name, codec, count)
        made = _core.DeviceSummedTensor(name, codec, count, self._numbers[name], self._side.core)
        self._side.watch(made)
        self._tensors[name] = made

    def start(
        self, named: Sequence[tuple[str, torch.Tensor]], step: int, factor: float, changes: Any
    ) -> SumBatch | None:
        """As of SummedAverage."""
        if not named:
            return None
        sizes = [self._counts[name] + 1 for name, _ in named]
        levels = torch.empty(sum(sizes), dtype=torch.int8, device=self._side.device)
        together, statistics = self._statistics([name for name, _ in named])
        for memory in (levels, *together.values()):
            self._side.used_by_all(memory)
        batch = _GpuSumBatch([], step, factor, levels, [], changes=changes)
        for (name, tensor), part in zip(named, levels.split(sizes), strict=True):
            gradient = statistics[name][-1:].data_ptr()
            one = _Part(name, self._side.values(tensor), statistics[name][:-1], gradient, part)
            key, own = key_of(name, self._counts[name]), (place(one.agreed), gradient)
            self._tensors[name].make_statistics(self._side.queue, one.values, self._table, key, self._seed, step, *own)
            batch.parts.append(one)
        self._side.before_collective()
        batch.works = [self._combine(self._exchange, values, how) for how, values in together.items()]
        return batch

    def go_on(self, batch: SumBatch) -> None:
        """As of SummedAverage."""
        assert isinstance(batch, _GpuSumBatch)
        for work in batch.works:
            work.wait()
        for one in batch.parts:
            self._tensors[one.name].make_levels(self._side.queue, place(one.agreed), place(one.levels))
        self._side.before_collective()
        batch.works = [self._combine(self._collect, batch.levels, "sum")]

    def finish(self, batch: SumBatch) -> bool:
        """As of SummedAverage."""
        assert isinstance(batch, _GpuSumBatch)
        for work in batch.works:
            work.wait()
        for one in batch.parts:
            where = place(one.agreed), one.gradient, place(one.levels)
            self._tensors[one.name].finish(self._side.queue, one.values, batch.factor, *where, batch.changes)
        return True

    def tables(self) -> list[SlotStateTable]:
        """As of SummedAverage."""
        return [self._table]

    def state_dict(self) -> dict[str, Any]:
        """As of SummedAverage."""
        self._side.synchronize()
        return {key: states for key, states in self._table.read().items() if states}

    def adopt(self, states: dict[str, dict[str, Floats]]) -> None:
        """As of SummedAverage."""
        self._table = self._side.table()
        for name, each in states.items():
            for state, values in each.items():
                count, block = self._counts[name], self._codecs[name].state_block(state)
                self._table.put(key_of(name, count), state, values, block, count)
