# SPDX-License-Identifier: Apache-2.0
"""Codecs whose encoded values are added, over a process group: an all-reduce of statistics, and one of levels.

The steps: core/codec/summed_step.h. The statistics of a batch that are combined alike are one message, and so are all
its levels, which are int8. Integer sums are the same on all ranks in any order; the maximum is, too, and a sum of
statistics as Gloo's all-reduce gives it. A GPU decides itself whether new states are kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from hipress import _core
from hipress.errors import InvalidArgument
from hipress.torch.process_groups import group_calls
from hipress.torch.process_groups.group_calls import Group, Work
from hipress.torch.process_groups.side import Side, Values, place
from hipress.torch.process_groups.states.residuals import Floats, length_of

if TYPE_CHECKING:
    from hipress._core import SlotChanges, SlotStateTable, SummedTensor

#: The role of such a tensor in saved states.
ROLE = "sums"


@dataclass
class _Part:
    name: str
    values: Values
    agreed: torch.Tensor
    gradient: int
    """The address of a value that is not 0 if a rank has a gradient. Without any the average is zeros, and the states
    stay."""
    levels: torch.Tensor
    """And one element more: how many ranks could not encode."""


@dataclass
class SumBatch:
    """The tensors of a batch on their way."""

    step: int
    factor: float
    """Of the sum over all ranks."""
    levels: torch.Tensor
    """All levels, one behind the other."""
    changes: SlotChanges
    parts: list[_Part] = field(default_factory=list)
    works: list[Work] = field(default_factory=list)


class SummedAverage:
    """Averages tensors of batches. Each of the three parts is a stage of its own.

    Arguments:
        exchange, collect: two groups of the same ranks, as Exchange has them.
        seed: of this rank's random numbers.
        side: where the ranks compute.
    """

    def __init__(self, exchange: Group, collect: Group, *, seed: int, side: Side) -> None:
        self._exchange, self._collect, self._side = exchange, collect, side
        self._world: int = exchange.size()
        self._seed = seed
        self._codecs: dict[str, _core.Codec] = {}
        self._counts: dict[str, int] = {}
        self._tensors: dict[str, SummedTensor] = {}
        self._table = side.table()
        self.sent_bytes = 0
        """The bytes that a rank sends of statistics and levels if all ranks form one ring."""

    def __contains__(self, name: str) -> bool:
        return name in self._codecs

    def add(self, name: str, codec: _core.Codec, count: int) -> None:
        """From now on ranks add what `codec` encodes of this tensor of `count` elements. Raises Unsupported if a GPU
        has no code for the codec."""
        self._codecs[name], self._counts[name] = codec, count
        self._tensors[name] = self._side.summed(name, codec, count, _core.number_of_name(name))

    # First stage.
    def start(
        self, named: Sequence[tuple[str, torch.Tensor]], step: int, factor: float, changes: SlotChanges
    ) -> SumBatch | None:
        """Starts to combine the statistics of these flat tensors; None if there are none. `changes`: of the step."""
        if not named:
            return None
        sizes = [self._counts[name] + 1 for name, _ in named]
        levels = torch.empty(sum(sizes), dtype=torch.int8, device=self._side.device)
        together, statistics = self._statistics([name for name, _ in named])
        for memory in (levels, *together.values()):
            self._side.used_by_all(memory)
        batch = SumBatch(step, factor, levels, changes)
        for (name, tensor), part in zip(named, levels.split(sizes), strict=True):
            gradient = statistics[name][-1:].data_ptr()
            one = _Part(name, self._side.values(tensor), statistics[name][:-1], gradient, part)
            key, own = key_of(name, self._counts[name]), (place(one.agreed), gradient)
            self._tensors[name].make_statistics(self._side.queue, one.values, self._table, key, self._seed, step, *own)
            batch.parts.append(one)
        self._side.before_collective()
        batch.works = [self._combine(self._exchange, values, how) for how, values in together.items()]
        return batch

    def _statistics(self, names: Sequence[str]) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """Room for statistics: one tensor for each way in which they are combined, and each tensor's part by name. The
        last value of a part tells whether a rank has a gradient."""
        together: dict[str, torch.Tensor] = {}
        found: dict[str, torch.Tensor] = {}
        for how in ("max", "min", "sum"):
            some = [name for name in names if self._agreement(name) == how]
            counts = [self._codecs[name].statistics_count(self._counts[name]) + 1 for name in some]
            if some:
                together[how] = torch.zeros(sum(counts), device=self._side.device)
                found.update(zip(some, together[how].split(counts), strict=True))
        return together, found

    def _agreement(self, name: str) -> str:
        summed = self._codecs[name].summed
        assert summed is not None
        return summed[0]

    # Second stage.
    def go_on(self, batch: SumBatch) -> None:
        """Waits for the combined statistics, and starts the sum of the levels."""
        for work in batch.works:
            work.wait()
        for one in batch.parts:
            self._tensors[one.name].make_levels(self._side.queue, place(one.agreed), place(one.levels))
        self._side.before_collective()
        batch.works = [self._combine(self._collect, batch.levels, "sum")]

    # Third stage.
    def finish(self, batch: SumBatch) -> None:
        """Waits for that sum, and writes the averages and the states."""
        for work in batch.works:
            work.wait()
        for one in batch.parts:
            tensor, where = self._tensors[one.name], (place(one.agreed), one.gradient, place(one.levels))
            tensor.finish(self._side.queue, one.values, batch.factor, *where, batch.changes)
        for one in batch.parts:
            self._side.computed(self._tensors[one.name])

    def _combine(self, group: Group, values: torch.Tensor, how: str) -> Work:
        self.sent_bytes += 2 * (self._world - 1) * values.element_size() * values.numel() // self._world
        return group_calls.combine(group, values, how)

    def tables(self) -> list[SlotStateTable]:
        """The states."""
        return [self._table]

    def state_dict(self) -> dict[str, Any]:
        """Copies of all states: {"tensor\\nsums\\n0\\ncount": {state: values}}."""
        self._side.synchronize()
        return {key: states for key, states in self._table.read().items() if states}

    def takes(self, key: str, values: Mapping[str, Any]) -> bool:
        """As of LinkedAverage."""
        name, _, _, count = key.split("\n")
        return self._counts.get(name) == int(count) and set(values) == set(self._codecs[name].states)

    def checked(self, state: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Floats]]:
        """What state_dict() gave of tensors that takes() knows, for adopt(). Raises InvalidArgument."""
        loaded = {}
        for text, values in state.items():
            name, _, _, count = text.split("\n")
            arrays = {each: np.array(array, np.float32) for each, array in values.items()}
            for each, array in arrays.items():
                length = length_of(int(count), self._codecs[name].state_block(each))
                if array.shape != (length,):
                    raise InvalidArgument(f"the state '{each}' of '{name}' does not have {length} elements")
            loaded[name] = arrays
        return loaded

    def adopt(self, states: dict[str, dict[str, Floats]]) -> None:
        """Goes on from these."""
        self._table = self._side.table()
        for name, each in states.items():
            for state, values in each.items():
                count, block = self._counts[name], self._codecs[name].state_block(state)
                self._table.put(key_of(name, count), state, values, block, count)


def key_of(name: str, count: int) -> str:
    """The key of a tensor's saved states."""
    return f"{name}\n{ROLE}\n0\n{count}"


def mean_states(saved: Sequence[Mapping[str, Mapping[str, Any]]]) -> dict[str, dict[str, Floats]]:
    """The states of each rank, of any number, from those of all ranks before: their mean, which the average lacks."""
    keys = dict.fromkeys(key for states in saved for key in states if key.split("\n")[1:2] == [ROLE])
    return {
        key: {
            each: (
                np.sum([np.asarray(states[key][each], np.float64) for states in saved if key in states], axis=0)
                / len(saved)
            ).astype(np.float32)
            for each in next(states[key] for states in saved if key in states)
        }
        for key in keys
    }
