# SPDX-License-Identifier: Apache-2.0
"""Which codecs and topologies codec="auto" tries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist

from hipress import _core
from hipress._library import load_core
from hipress.adapter.automatic_codec import check_no_accuracy, kind_of
from hipress.errors import HipressError, InvalidArgument
from hipress.options.travel import AUTO
from hipress.secopa.evidence.clearance import cleared
from hipress.secopa.online.race import Way
from hipress.torch.process_groups.agreement import gather_texts
from hipress.torch.process_groups.dtypes import TensorShape
from hipress.torch.process_groups.layout import payload_room
from hipress.torch.process_groups.options import GroupOptions


def codecs_to_choose(codec: str | None, options: Mapping[str, Any], *unwanted: str) -> tuple[str, ...]:
    """What codec "auto" may choose, the most exact one first; empty: the codec is given.

    Raises InvalidArgument, also if `options` has `unwanted` ones beside "auto".
    """
    accuracy, optimizer = options.get("accuracy"), options.get("optimizer")
    if codec != AUTO:
        check_no_accuracy(accuracy)
        if optimizer is not None:
            raise InvalidArgument('optimizer= is for codec="auto", which it tells what to choose from')
        return ()
    for name in unwanted:
        if options.get(name) is not None:
            raise InvalidArgument(f'codec="auto" chooses how gradients travel: give it without {name}')
    return cleared(kind_of(optimizer), accuracy or "safe")


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
    hosts = _ranks_per_host(group, device) if topologies and base.topology == "auto" else 0
    for codec in codecs:
        ways = [base]
        if hosts and codec != "none":
            ways.append(replace(base, topology="hierarchical", ranks_per_host=hosts))
        found += [each for way in ways if _goes(each := replace(way, codec=codec), shapes, world, device)]
    return found


def _goes(options: GroupOptions, shapes: Mapping[str, TensorShape], world: int, device: torch.device) -> bool:
    """Whether these tensors can travel so."""
    codec = load_core().create_codec(options.codec)
    if codec.low_rank is not None and device.type != "cpu":
        return False
    try:
        options.check(shapes, matrices=all(shape.rows for shape in shapes.values()), whole=True)
        options.check_sums(world)
    except HipressError:
        return False
    # A model in bf16 gains nothing by the codec of this name.
    return codec.name == "none" or _bytes(options, shapes) < _bytes(replace(options, codec="none"), shapes)


def way_of(options: GroupOptions, shapes: Mapping[str, TensorShape], world: int) -> Way:
    """How these tensors travel with the options."""
    sent: float = _bytes(options, shapes)
    if options.topology == "allgather":
        sent *= world / 2
    elif options.ranks_per_host:
        # The ranks of a host share its link; only sums of hosts cross it.
        hosts = world // options.ranks_per_host
        sent *= (1 - 1 / hosts) / (options.ranks_per_host * (1 - 1 / world))
    return Way(options.codec, load_core().resolved_topology(options.topology, world), sent)


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
