# SPDX-License-Identifier: Apache-2.0
"""codec="auto" of the communication hook: which codecs and topologies are tried, and how they are measured."""

from __future__ import annotations

import itertools
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist

from hipress import _core
from hipress._library import load_core
from hipress.errors import HipressError
from hipress.secopa.online.probe import seconds_per_byte
from hipress.secopa.online.race import Way
from hipress.secopa.online.ways import AutomaticWays
from hipress.torch.process_groups import group_calls
from hipress.torch.process_groups.agreement import check_alike, gather_texts
from hipress.torch.process_groups.dtypes import TensorShape
from hipress.torch.process_groups.layout import payload_room
from hipress.torch.process_groups.options import GroupOptions

#: In an allgather each rank sends to all other ranks: with two, that is as many bytes and one hop fewer.
_FEW = 2


def automatic_ways(
    group: dist.ProcessGroup,
    shapes: Mapping[str, TensorShape],
    device: torch.device,
    options: Sequence[GroupOptions],
    change: Callable[[GroupOptions], None],
) -> AutomaticWays:
    """The race for a model whose gradients `change` lets travel by these options. All ranks of the group call it.

    Raises Mismatch, on all ranks, if ranks have other options.
    """
    world = group.size()
    named = {_way(each, shapes, world): each for each in options}
    check_alike(group, "\n".join(f"codec='auto' may choose {way}" for way in named), device)
    training = _GroupTraining(group, device, lambda way: change(named[way]))
    return AutomaticWays(training, tuple(named), says=group.rank() == 0)


def options_to_try(
    base: GroupOptions,
    codecs: Iterable[str],
    shapes: Mapping[str, TensorShape],
    group: dist.ProcessGroup,
    device: torch.device,
    *,
    topologies: bool,
) -> list[GroupOptions]:
    """The options with each codec, the most exact one first. All ranks of the group call it.

    Arguments:
        topologies: whether the topology is to be chosen, too, if `base` has the default one. There is evidence of
            topologies that encode a gradient once and its average once.
    """
    world, found = group.size(), []
    hosts = _ranks_per_host(group, device) if topologies and base.topology == "ps" else 0
    for codec in codecs:
        ways = [base]
        if topologies and base.topology == "ps" and codec != "none":
            ways += [replace(base, topology="hierarchical", ranks_per_host=hosts)] if hosts else []
            ways += [replace(base, topology="allgather")] if world <= _FEW else []
        found += [each for way in ways if _goes(each := replace(way, codec=codec), shapes, world, device)]
    return found


def _goes(options: GroupOptions, shapes: Mapping[str, TensorShape], world: int, device: torch.device) -> bool:
    """Whether these tensors can travel so."""
    codec = load_core().create_codec(options.codec)
    if codec.low_rank is not None and device.type != "cpu":
        return False
    try:
        options.check(shapes, matrices=True, whole=True)
        options.check_sums(world)
    except HipressError:
        return False
    # A model in bf16 gains nothing by the codec of this name.
    return codec.name == "none" or _bytes(options, shapes) < _bytes(replace(options, codec="none"), shapes)


def _way(options: GroupOptions, shapes: Mapping[str, TensorShape], world: int) -> Way:
    sent: float = _bytes(options, shapes)
    if options.topology == "allgather":
        sent *= world / 2
    elif options.ranks_per_host:
        # The ranks of a host share its link; only sums of hosts cross it.
        hosts = world // options.ranks_per_host
        sent *= (1 - 1 / hosts) / (options.ranks_per_host * (1 - 1 / world))
    return Way(options.codec, options.topology, sent)


def _bytes(options: GroupOptions, shapes: Mapping[str, TensorShape]) -> int:
    """Of all tensors, encoded once."""
    total = 0
    for name, shape in shapes.items():
        codec = options.codec_of(name, shape.count, shape.dtype.itemsize, shape.dimensions)
        raw = shape.count * shape.dtype.itemsize
        if codec is None or shape.count > _core.MOST_ENCODED:
            total += raw
        else:
            total += payload_room(codec, shape.count, shape.dtype)[1]
    return total


def _ranks_per_host(group: dist.ProcessGroup, device: torch.device) -> int:
    """How many ranks each host has, if there are several hosts with several consecutive ranks each, all as many; 0:
    there are not."""
    hosts = gather_texts(group, load_core().host_identity(), device)
    counts = set(Counter(hosts).values())
    if len(counts) != 1 or len(set(hosts)) == 1:
        return 0
    each = counts.pop()
    together = all(len(set(hosts[first : first + each])) == 1 for first in range(0, len(hosts), each))
    return each if each > 1 and together else 0


class _GroupTraining:
    """A training whose gradients travel over a process group, on the group's device."""

    def __init__(self, group: dist.ProcessGroup, device: torch.device, change: Callable[[Way], None]) -> None:
        self._group, self._device = group, device
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
        told = torch.tensor([seconds], dtype=torch.float64, device=self._device)
        return statistics.median(float(each) for each in group_calls.gather_all(self._group, told))

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

    def change(self, way: Way) -> None:
        """See Training."""
        self._change(way)
