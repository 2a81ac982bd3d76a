# SPDX-License-Identifier: Apache-2.0
"""Units of a search: single gradients, and groups of gradients that get one decision."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from hipress.secopa.plan.choice import Choice
from hipress.secopa.plan.partitions import by_size
from hipress.secopa.planners.options import PlanningOptions
from hipress.secopa.profile.gradients import Gradient, GradientSet
from hipress.secopa.profile.profile import Profile


@dataclass(frozen=True)
class Unit:
    """One gradient, or several gradients that are synchronised as one tensor."""

    members: tuple[int, ...]
    """Indices of the gradients, in the order in which backward releases them."""
    elements: int
    bytes: int
    dtype: str
    release_s: float
    """Release time of the last member."""
    codecs: tuple[str, ...]
    """The codecs that every member may have."""
    shape: tuple[int, ...] | None = None
    """The dimensions of a single gradient, if they are known."""

    @property
    def gradient(self) -> Gradient:
        """The unit as one gradient without a release time."""
        # A search makes thousands of them, so they skip validation.
        return Gradient.model_construct(
            name="unit", elements=self.elements, dtype=self.dtype, shape=self.shape, release_s=None
        )


def units_of(gradients: GradientSet, profile: Profile, options: PlanningOptions) -> list[Unit]:
    """A unit for each gradient."""
    return [
        Unit(
            members=(index,),
            elements=one.elements,
            bytes=one.bytes,
            dtype=one.dtype,
            release_s=release_s,
            codecs=options.allowed(one, profile),
            shape=one.shape,
        )
        for index, (one, release_s) in enumerate(zip(gradients.gradients, gradients.releases_s(), strict=True))
    ]


def choices_of_gradients(units: Sequence[Unit], choices: Sequence[Choice], count: int) -> tuple[Choice, ...]:
    """A choice for each of `count` gradients, from one choice per unit. Groups are numbered in the order of the
    units."""
    spread = [Choice()] * count
    groups = 0
    for unit, choice in zip(units, choices, strict=True):
        name = None
        if len(unit.members) > 1:
            groups += 1
            name = str(groups)
        for member in unit.members:
            spread[member] = choice._replace(group=name)
    return tuple(spread)


def fuse(
    units: Sequence[Unit], choices: Sequence[Choice], most_bytes: int, world: int, alone: Container[str] = ()
) -> tuple[list[Unit], list[Choice]]:
    """Fuses units with the same codec and topology in the order of their release, up to `most_bytes` per group.

    `alone`: the codecs that take no group. Units above a quarter of `most_bytes` stay single, too: fusing saves them
    little, and they would wait for other members.
    """
    order = sorted(range(len(units)), key=lambda index: (units[index].release_s, -index))
    open_groups: dict[tuple[str, str, str], list[int]] = {}
    groups: list[list[int]] = []
    for index in order:
        unit, choice = units[index], choices[index]
        if unit.bytes * 4 > most_bytes or choice.codec in alone:
            groups.append([index])
            continue
        way = (choice.codec, choice.topology, unit.dtype)
        group = open_groups.get(way)
        if group is None or sum(units[one].bytes for one in group) + unit.bytes > most_bytes:
            group = open_groups[way] = []
            groups.append(group)
        group.append(index)
    # Groups get the order of the model, which is also the order of priorities.
    groups.sort(key=min)
    fused = [joined([units[index] for index in group]) for group in groups]
    ways = [
        choices[group[0]]
        if len(group) == 1
        else choices[group[0]]._replace(partitions=by_size(unit.elements, unit.dtype, world))
        for group, unit in zip(groups, fused, strict=True)
    ]
    return fused, ways


def joined(units: Sequence[Unit]) -> Unit:
    """One unit of several units with the same element type."""
    first = units[0]
    return Unit(
        members=tuple(member for unit in units for member in unit.members),
        elements=sum(unit.elements for unit in units),
        bytes=sum(unit.bytes for unit in units),
        dtype=first.dtype,
        release_s=max(unit.release_s for unit in units),
        codecs=tuple(codec for codec in first.codecs if all(codec in unit.codecs for unit in units)),
        shape=first.shape if len(units) == 1 else None,
    )
