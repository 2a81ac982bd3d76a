# SPDX-License-Identifier: Apache-2.0
"""MergeComp's planner: it merges all gradients into a few groups, and compresses each group as one tensor.

The gradients keep the order of their release, and a group is a run of consecutive gradients. With two groups the
duration of a step first falls and then rises as the boundary between them moves, so an interval search finds the best
boundary. For more groups the planner adds one boundary at a time, and then moves each boundary to its best place. It
adds groups as long as one more group saves a twentieth of the time that the step takes beyond backward.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise, product

from hipress.errors import InvalidArgument
from hipress.secopa.plan.choice import RAW, Choice
from hipress.secopa.plan.partitions import by_size
from hipress.secopa.planners.trials import Found, Trials, shortest
from hipress.secopa.planners.units import Unit, joined, units_of

#: A function that predicts the step with groups divided at the given boundaries.
_Divided = Callable[[tuple[int, ...]], Found | None]
#: The share of the step's exposed time that one more group must save.
_WORTH_A_GROUP = 0.05
#: The largest number of passes over all boundaries.
_MOVED = 3


def merge(trials: Trials) -> Found:
    """The best groups. All have the allowed codec and topology that are best for a single group.

    Raises InvalidArgument if no gradient may be compressed, or there are fewer gradients than groups.
    """
    units = units_of(trials.gradients, trials.model.profile, trials.options)
    order = sorted(units, key=lambda unit: (unit.release_s, -unit.members[0]))
    wanted = trials.options.groups
    if wanted is not None and wanted > len(order):
        raise InvalidArgument(f"{wanted} groups of {len(order)} gradients: expected at most one group per gradient")
    codecs = dict.fromkeys(codec for unit in units for codec in unit.codecs)
    ways = list(product(codecs, trials.options.topologies))
    found = shortest([_divided(trials, order, (), way) for way in ways])
    if found is None:
        raise InvalidArgument("nothing may be compressed: allow a codec, a larger error or more memory")
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
    """Adds the best boundary, and then moves each boundary to its best place between its neighbours."""

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
    """The lowest argument of a function of whole numbers that first falls and then rises."""
    while high - low > 4:
        # It takes five samples, because on a level stretch two samples do not tell the side of the minimum.
        places = [low + (high - low) * quarter // 4 for quarter in range(5)]
        lowest = min(range(5), key=lambda index: value(places[index]))
        low, high = places[max(0, lowest - 1)], places[min(4, lowest + 1)]
    return min(range(low, high + 1), key=value)


def _divided(trials: Trials, order: list[Unit], places: tuple[int, ...], way: tuple[str, str]) -> Found | None:
    """The step with these boundaries. The gradients of a run that may not have the codec form an uncompressed group."""
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
