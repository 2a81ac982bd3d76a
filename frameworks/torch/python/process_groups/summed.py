# SPDX-License-Identifier: Apache-2.0
"""Codecs whose encoded values are added, over a process group: an all-reduce of statistics, and one of levels.

The steps: core/codec/summed_step.h. The statistics of a batch that are combined alike are one message, and so are all
its levels, which are int8. Integer sums are the same on all ranks in any order; the maximum is, too, and a sum of
statistics as Gloo's all-reduce gives it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hipress import _core
from hipress.errors import InvalidArgument
from hipress.torch.process_groups import group_calls
from hipress.torch.process_groups.agreement import CPU
from hipress.torch.process_groups.group_calls import Group, Work
from hipress.torch.process_groups.host_side import array_of
from hipress.torch.process_groups.states.residuals import Floats, length_of

#: The role of such a tensor in saved states.
ROLE = "sums"


@dataclass
class _Step:
    name: str
    codec: _core.Codec
    values: Floats
    before: list[Floats]
    after: list[Floats]
    agreed: Floats
    levels: torch.Tensor
    """And one element more: how many ranks could not encode."""
    message: NDArray[np.uint8]
    result: torch.Tensor
    gradient: torch.Tensor
    """One value: not 0 if a rank has a gradient. Without any the average is zeros, and the states stay."""


@dataclass
class SumBatch:
    """The tensors of a batch on their way."""

    steps: list[_Step]
    step: int
    factor: float
    """Of the sum over all ranks."""
    levels: torch.Tensor
    """All levels, one behind the other."""
    works: list[Work]


class SummedAverage:
    """Averages tensors of batches. Each of the three parts runs in a thread of its own.

    Arguments:
        exchange, collect: two groups of the same ranks, as Exchange has them.
        seed: of this rank's random numbers.
        numbers: of all tensors, by name.
        device: of the tensors.
    """

    def __init__(
        self, exchange: Group, collect: Group, *, seed: int, numbers: Mapping[str, int], device: torch.device = CPU
    ) -> None:
        self._exchange, self._collect, self._device = exchange, collect, device
        self._world: int = exchange.size()
        self._seed, self._numbers = seed, numbers
        self._codecs: dict[str, _core.Codec] = {}
        self._counts: dict[str, int] = {}
        self._states: dict[str, dict[str, Floats]] = {}
        #: Of the tensors of the current step: the states before it, None for zeros.
        self._before: dict[str, dict[str, Floats] | None] = {}
        #: Memory for the next step: fresh pages take longer than encoding into them.
        self._spare: dict[str, list[Floats]] = {}
        self._messages: dict[str, NDArray[np.uint8]] = {}
        self.sent_bytes = 0
        """The bytes that a rank sends of statistics and levels if all ranks form one ring."""

    def __contains__(self, name: str) -> bool:
        return name in self._codecs

    def add(self, name: str, codec: _core.Codec, count: int) -> None:
        """From now on ranks add what `codec` encodes of this tensor of `count` elements."""
        self._codecs[name], self._counts[name] = codec, count

    # First thread.
    def start(
        self, named: Sequence[tuple[str, torch.Tensor]], step: int, factor: float, changes: Any
    ) -> SumBatch | None:
        """Starts to combine the statistics of these flat tensors; None if there are none. `changes`: of the step."""
        if not named:
            return None
        levels = torch.zeros(sum(self._counts[name] + 1 for name, _ in named), dtype=torch.int8)
        parts = levels.split([self._counts[name] + 1 for name, _ in named])
        together, statistics = self._statistics([name for name, _ in named])
        steps = []
        for (name, tensor), part in zip(named, parts, strict=True):
            codec, agreed = self._codecs[name], statistics[name][:-1].numpy()
            gradient = statistics[name][-1:]
            if not _core.are_zeros(array_of(tensor)):
                gradient.fill_(self._has_gradient(name))
            kept = self._states.get(name)
            lengths = [length_of(tensor.numel(), codec.state_block(state)) for state in codec.states]
            before = [
                np.zeros(length, np.float32) if kept is None else kept[state]
                for state, length in zip(codec.states, lengths, strict=True)
            ]
            after, message = self._memory(name, lengths, agreed.size)
            one = _Step(name, codec, tensor.float().numpy(), before, after, agreed, part, message, tensor, gradient)
            _core.summed_statistics(codec, one.values, before, statistics=agreed, **self._key(name, step))
            steps.append(one)
        works = [self._combine(self._exchange, values, how) for how, values in together.items()]
        return SumBatch(steps, step, factor, levels, works)

    def _statistics(self, names: Sequence[str]) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """Room for statistics: one tensor for each way in which they are combined, and each tensor's part by name. The
        last value of a part tells whether a rank has a gradient."""
        together: dict[str, torch.Tensor] = {}
        found: dict[str, torch.Tensor] = {}
        for how in ("max", "min", "sum"):
            some = [name for name in names if self._agreement(name) == how]
            counts = [self._codecs[name].statistics_count(self._counts[name]) + 1 for name in some]
            if some:
                together[how] = torch.zeros(sum(counts), device=self._device)
                found.update(zip(some, together[how].split(counts), strict=True))
        return together, found

    def _memory(self, name: str, states: Sequence[int], statistics: int) -> tuple[list[Floats], NDArray[np.uint8]]:
        """For the new states and for the message."""
        message = self._messages.pop(name, None)
        if message is None:
            message = np.empty(4 * statistics + self._counts[name] + 1, np.uint8)
        after = self._spare.pop(name, None)
        return [np.empty(length, np.float32) for length in states] if after is None else after, message

    def _has_gradient(self, name: str) -> float:
        """Combined with zeros it is not 0."""
        return -1.0 if self._agreement(name) == "min" else 1.0

    def _agreement(self, name: str) -> str:
        summed = self._codecs[name].summed
        assert summed is not None
        return summed[0]

    def _key(self, name: str, step: int) -> dict[str, int]:
        """What random numbers depend on."""
        return {"seed": self._seed, "step": step, "tensor": self._numbers[name]}

    # Second thread.
    def go_on(self, batch: SumBatch) -> None:
        """Waits for the combined statistics, and starts the sum of the levels."""
        for work in batch.works:
            work.wait()
        for one in batch.steps:
            _core.summed_levels(
                one.codec,
                one.agreed,
                one.values,
                one.before,
                one.after,
                message=one.message,
                **self._key(one.name, batch.step),
            )
            one.levels.numpy()[:] = one.message[4 * one.agreed.size :].view(np.int8)
        batch.works = [self._combine(self._collect, batch.levels, "sum")]

    # Third thread.
    def finish(self, batch: SumBatch) -> bool:
        """Waits for that sum, and writes the averages and the states; returns whether no average is known not to be
        finite."""
        for work in batch.works:
            work.wait()
        finite = True
        for one in batch.steps:
            if one.gradient[0] == 0:
                self._messages[one.name], self._spare[one.name] = one.message, one.after
                continue
            one.message[4 * one.agreed.size :] = one.levels.numpy().view(np.uint8)
            in_place = one.result.dtype == torch.float32
            output = one.result.numpy() if in_place else np.empty(one.values.size, np.float32)
            is_finite = _core.summed_result(one.codec, one.agreed, one.message, factor=batch.factor, output=output)
            if not in_place:
                one.result.copy_(torch.from_numpy(output))
                is_finite = is_finite and bool(torch.isfinite(one.result).all())
            self._messages[one.name] = one.message
            if is_finite and one.after:
                self._before[one.name] = self._states.get(one.name)
                self._states[one.name] = dict(zip(one.codec.states, one.after, strict=True))
            else:
                self._spare[one.name] = one.after
            finite = finite and is_finite
        return finite

    def settle(self, discarded: bool) -> None:
        """As of LinkedAverage."""
        for name, before in self._before.items():
            free = self._states[name] if discarded else before
            if discarded and before is None:
                del self._states[name]
            elif discarded:
                assert before is not None
                self._states[name] = before
            if free is not None:
                self._spare[name] = list(free.values())
        self._before = {}

    def _combine(self, group: Group, values: torch.Tensor, how: str) -> Work:
        self.sent_bytes += 2 * (self._world - 1) * values.element_size() * values.numel() // self._world
        return group_calls.combine(group, values, how)

    def tables(self) -> list[_core.SlotStateTable]:
        """The states that a GPU has."""
        return []

    def multiply(self, factor: float) -> None:
        """Multiplies the states: the unit of gradients has changed. A GPU multiplies its own."""
        for states in self._states.values():
            for values in states.values():
                values *= np.float32(factor)

    def state_dict(self) -> dict[str, Any]:
        """Copies of all states: {"tensor\\nsums\\n0\\ncount": {state: values}}."""
        return {
            key_of(name, self._counts[name]): {state: values.copy() for state, values in states.items()}
            for name, states in self._states.items()
        }

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
        self._states = states


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
