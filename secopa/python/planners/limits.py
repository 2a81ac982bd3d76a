# SPDX-License-Identifier: Apache-2.0
"""The error and the memory of a plan, and whether both are within the limits of the options."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from hipress.secopa.models.linked_gradients import linked_tensors
from hipress.secopa.models.suitability import suits
from hipress.secopa.plan.choice import Choice
from hipress.secopa.planners.options import PlanningOptions
from hipress.secopa.planners.units import Unit
from hipress.secopa.profile.profile import Profile


def within(
    units: Sequence[Unit], choices: Sequence[Choice], profile: Profile, world: int, options: PlanningOptions
) -> bool:
    """Whether the units can have these choices, and these are within the limits of `options`."""
    for unit, choice in zip(units, choices, strict=True):
        if choice.compressed and not suits(profile.costs(choice.codec), choice.topology, len(unit.members) > 1):
            return False
    if options.max_relative_error is not None and relative_error(units, choices, profile) > options.max_relative_error:
        return False
    if options.max_memory_bytes is None:
        return True
    return memory_bytes(units, choices, profile, world) <= options.max_memory_bytes


def relative_error(units: Sequence[Unit], choices: Sequence[Choice], profile: Profile) -> float:
    """‖x − x'‖ / ‖x‖ of one encoding of all gradients, on the assumption that their elements have equal variance."""
    lost, total = 0.0, 0
    for unit, choice in zip(units, choices, strict=True):
        total += unit.elements
        if choice.compressed:
            lost += unit.elements * (profile.costs(choice.codec).relative_error or 0.0) ** 2
    return math.sqrt(lost / total) if total else 0.0


def memory_bytes(units: Sequence[Unit], choices: Sequence[Choice], profile: Profile, world: int) -> float:
    """The largest staging memory and the states of one rank, by the formulas of docs/algorithms.md."""
    threads = profile.compute_threads
    places = profile.places(world)
    hosts = len({place.host for place in places})
    local = max(Counter(place.host for place in places).values())
    total = 0.0
    for unit, choice in zip(units, choices, strict=True):
        both = linked_tensors(profile, unit.gradient, choice.codec)
        if both is not None:
            total += sum(_plain_staging(one.bytes, choice.topology, world, hosts, local) for one in both)
            # The sums, and states twice, because new ones are written while both tensors are on their way. Without a
            # residual a matrix is kept for that time.
            linked = profile.linked[choice.codec]
            vectors = 2 * linked.states if linked.states or linked.summed is not None else 1
            total += sum(one.bytes for one in both) + vectors * 4 * unit.elements
            continue
        costs = profile.codec(choice.codec) if choice.compressed and choice.codec not in profile.linked else None
        raw, float32 = unit.bytes, 4 * unit.elements
        if costs is None:
            total += _plain_staging(raw, choice.topology, world, hosts, local)
            continue
        encoded = costs.encoded.of(float32)
        # Each compute thread holds one partition's sum in float32 and its states while it encodes them.
        at_a_time = min(threads, choice.partitions) / choice.partitions * float32
        sums = at_a_time
        kind, _, between = choice.topology.rstrip(")").partition("(")
        if kind == "hierarchical":
            staging = _hierarchical_staging(raw, encoded, between, hosts, local, compressed=True)
        elif kind == "allgather":
            staging = encoded * world
            sums = 0.0
        elif kind == "ring":
            staging = encoded
        else:
            staging = encoded * (world - 1) / world * 2
        # States for the worker's gradient, and for the sum of which the rank is the aggregator.
        total += staging + sums + costs.states * (float32 + at_a_time)
    return total


def _plain_staging(raw: float, topology: str, world: int, hosts: int, local: int) -> float:
    """Staging of an uncompressed tensor."""
    kind, _, between = topology.rstrip(")").partition("(")
    if kind == "hierarchical":
        return _hierarchical_staging(raw, raw, between, hosts, local, compressed=False)
    return raw * (world - 1) if kind == "allgather" else raw * (world - 1) / world


def _hierarchical_staging(raw: float, encoded: float, between: str, hosts: int, local: int, compressed: bool) -> float:
    """Staging of topology hierarchical on `hosts` hosts with `local` ranks each."""
    neighbours = (local - 1) / local
    others = (hosts - 1) / local if between == "allgather" else (hosts - 1) / (hosts * local)
    if not compressed:
        return raw * (neighbours + others)
    # After an allgather the neighbours receive decoded elements in place, without staging.
    handed_on = 0.0 if between == "allgather" else encoded * neighbours
    return raw * neighbours + handed_on + encoded * others
