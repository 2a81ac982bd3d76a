# SPDX-License-Identifier: Apache-2.0
"""MergeComp's planner: all gradients, merged into a few groups, each compressed as one.

Gradients stay in the order in which backward releases them, and a group is a run of them. With two groups the time of a
step first falls and then grows with the place at which they are divided, so a search of intervals finds the best place.
Of more groups one place after the other is searched for, and all are then moved where that helps. Another group is
added as long as that makes the step shorter by a twentieth of what it takes beyond backward.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise, product

from hipress.errors import InvalidArgument
from hipress.secopa.choice import RAW, Choice
from hipress.secopa.partitions import by_size
from hipress.secopa.trials import Found, Trials, shortest
from hipress.secopa.units import Unit, joined, units_of

#: What a step takes, if gradients are divided at such places.
_Divided = Callable[[tuple[int, ...]], Found | None]
#: The part of a step's exposed time that another group must save.
_WORTH_A_GROUP = 0.05
#: How often every place is moved, at most.
_MOVED = 3


def merge(trials: Trials) -> Found:
    """The best groups, with that codec and topology of those allowed that is best for one group.

    Raises InvalidArgument if nothing may be compressed, or there are fewer gradients than groups.
    """
    units = units_of(trials.gradients, trials.model.profile, trials.options)
    order = sorted(units, key=lambda unit: (unit.release_s, -unit.members[0]))
    wanted = trials.options.groups
    if wanted is not None and wanted > len(order):
        raise InvalidArgument(f"{wanted} groups of {len(order)} gradients: expected as many at most")
    codecs = dict.fromkeys(codec for unit in units for codec in unit.codecs)
    ways = list(product(codecs, trials.options.topologies))
    found = shortest([_divided(trials, order, (), way) for way in ways])
    if found is None:
        raise InvalidArgument("nothing may be compressed: allow a codec, or more error or memory")
    way = next(way for way in ways if _divided(trials, order, (), way) == found)

    def divided(places: tuple[int, ...]) -> Found | None:
        return _divided(trials, order, places, way)

    if wanted == 0:
        return divided(tuple(range(1, len(order)))) or found
    places: tuple[int, ...] = ()
    while len(places) + 1 < (wanted or len(order)):
        more = _with_another(divided, places, len(order))
        better = divided(more)
        if better is None:
            break
        saved = found.step.step_s - better.step.step_s
        if wanted is None and saved <= _WORTH_A_GROUP * max(0.0, found.step.step_s - found.step.backward_s):
            break
        places, found = more, better
    return found


def _with_another(divided: _Divided, places: tuple[int, ...], count: int) -> tuple[int, ...]:
    """One place more, where it is best, and then all where they are best between their neighbours."""

    def step_s(candidate: tuple[int, ...]) -> float:
        found = divided(candidate)
        return float("inf") if found is None else found.step.step_s

    added = []
    for low, high in pairwise((0, *places, count)):
        if high - low > 1:
            place = _lowest(lambda place: step_s(tuple(sorted((*places, place)))), low + 1, high - 1)
            added.append(tuple(sorted((*places, place))))
    return _moved(step_s, min(added, key=step_s), count)


def _moved(step_s: Callable[[tuple[int, ...]], float], places: tuple[int, ...], count: int) -> tuple[int, ...]:
    for _ in range(_MOVED):
        before = places
        for index in range(len(places)):
            low, _, high = (0, *places, count)[index : index + 3]

            def at(place: int, index: int = index, others: tuple[int, ...] = places) -> tuple[int, ...]:
                return (*others[:index], place, *others[index + 1 :])

            place = _lowest(lambda place, at=at: step_s(at(place)), low + 1, high - 1)  # type: ignore[misc]
            places = min(places, at(place), key=step_s)
        if places == before:
            break
    return places


def _lowest(value: Callable[[int], float], low: int, high: int) -> int:
    """Where a function of whole numbers that first falls and then grows is lowest."""
    while high - low > 4:
        # Five places rather than two: where it is level two say nothing about the side.
        places = [low + (high - low) * quarter // 4 for quarter in range(5)]
        lowest = min(range(5), key=lambda index: value(places[index]))
        low, high = places[max(0, lowest - 1)], places[min(4, lowest + 1)]
    return min(range(low, high + 1), key=value)


def _divided(trials: Trials, order: list[Unit], places: tuple[int, ...], way: tuple[str, str]) -> Found | None:
    """Gradients that may not have the codec travel with those of their run that may not, either."""
    codec, topology = way
    merged: list[tuple[Unit, str]] = []
    ends = (0, *places, len(order))
    for first, last in pairwise(ends):
        together: dict[tuple[str, str], list[Unit]] = {}
        for unit in order[first:last]:
            together.setdefault((codec if codec in unit.codecs else RAW, unit.dtype), []).append(unit)
        merged += [(joined(units), its_codec) for (its_codec, _), units in together.items()]
    merged.sort(key=lambda pair: min(pair[0].members))
    world = trials.model.world
    choices = [Choice(its_codec, topology, by_size(unit.elements, unit.dtype, world)) for unit, its_codec in merged]
    return trials.found([unit for unit, _ in merged], choices)
