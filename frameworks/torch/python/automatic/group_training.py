# SPDX-License-Identifier: Apache-2.0
"""The race of a model whose gradients travel over a process group."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist

from hipress.secopa.online.probe import seconds_per_byte
from hipress.secopa.online.race import Way
from hipress.secopa.online.ways import AutomaticWays
from hipress.torch.automatic.options_to_try import way_of
from hipress.torch.process_groups import group_calls
from hipress.torch.process_groups.agreement import check_alike
from hipress.torch.process_groups.dtypes import TensorShape
from hipress.torch.process_groups.options import GroupOptions
from hipress.torch.scaling.loss_scale import scaler_in_use


def automatic_ways(
    group: dist.ProcessGroup,
    shapes: Mapping[str, TensorShape],
    device: torch.device,
    options: Sequence[GroupOptions],
    change: Callable[[GroupOptions], None],
    beside: dist.ProcessGroup | None = None,
) -> AutomaticWays:
    """The race of a model whose gradients `change` lets travel by these options. All ranks of the group call it.

    `beside`: one rank each of all groups that average at the same time, and decide alike.

    Raises Mismatch, on all ranks, if ranks have other options.
    """
    world = group.size()
    named = {way_of(each, shapes, world): each for each in options}
    check_alike(group, "\n".join(f"codec='auto' may choose {way}" for way in named), device)
    training = _GroupTraining(group, beside, device, named, change)
    return AutomaticWays(training, tuple(named), says=dist.get_rank() == 0)


class _GroupTraining:
    """A training whose gradients travel over a process group, on the group's device."""

    def __init__(
        self,
        group: dist.ProcessGroup,
        beside: dist.ProcessGroup | None,
        device: torch.device,
        options: Mapping[Way, GroupOptions],
        change: Callable[[GroupOptions], None],
    ) -> None:
        self._group, self._beside, self._device = group, beside, device
        self._options = options
        self._change = change

    def mark(self) -> Any:
        """See Training. The host may be far ahead of a GPU, so it is the GPU that notes the time."""
        if self._device.type != "cuda":
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, marks: Sequence[Any]) -> list[float]:
        """See Training."""
        pairs = itertools.pairwise(marks)
        if self._device.type != "cuda":
            return [after - before for before, after in pairs]
        marks[-1].synchronize()
        return [before.elapsed_time(after) / 1e3 for before, after in pairs]

    def agreed(self, seconds: float) -> float:
        """See Training."""
        for group in (self._group, self._beside):
            if group is not None:
                told = torch.tensor([seconds], dtype=torch.float64, device=self._device)
                seconds = statistics.median(float(each) for each in group_calls.gather_all(group, told))
        return seconds

    def seconds_per_byte(self) -> float:
        """See Training."""
        return seconds_per_byte(self._add, self.agreed)

    def _add(self, elements: int) -> float:
        values = torch.zeros(elements, device=self._device)
        self._wait()
        start = time.perf_counter()
        group_calls.all_reduce(self._group, values).wait()
        self._wait()
        return time.perf_counter() - start

    def _wait(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.current_stream(self._device).synchronize()

    def takes(self, way: Way) -> bool:
        """See Training."""
        options = self._options[way]
        return not options.keeps_states() or options.scaler.is_given or scaler_in_use() is None

    def change(self, way: Way) -> None:
        """See Training."""
        self._change(self._options[way])
