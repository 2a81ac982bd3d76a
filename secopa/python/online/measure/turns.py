# SPDX-License-Identifier: Apache-2.0
"""Measuring turns: in one turn all pairs of ranks measure that share no machine with each other."""

from __future__ import annotations

from collections.abc import Sequence

from hipress.secopa.online.measure.places import first_ranks
from hipress.secopa.online.measure.point_to_point import Pair
from hipress.secopa.profile.profile import RankPlace


def link_turns(places: Sequence[RankPlace]) -> list[list[Pair]]:
    """The turns for all pairs of hosts in both directions, each host represented by its first rank.

    Pairs of consecutive hosts come first, so that the first few turns already involve every host.
    """
    ranks = list(first_ranks([place.host for place in places]).values())
    count = len(ranks)
    ordered = [
        Pair(ranks[index], ranks[(index + shift) % count]) for shift in range(1, count) for index in range(count)
    ]
    return turns_of(ordered, places)


def turns_of(ordered: Sequence[Pair], places: Sequence[RankPlace]) -> list[list[Pair]]:
    """The turns of these pairs. Each pair goes into the first turn in which no other pair uses its machines."""
    turns: list[tuple[list[Pair], set[str]]] = []
    for pair in ordered:
        machines = {places[rank].machine for rank in pair}
        for pairs, busy in turns:
            if not machines & busy:
                pairs.append(pair)
                busy |= machines
                break
        else:
            turns.append(([pair], machines))
    return [pairs for pairs, _ in turns]


def neighbours(places: Sequence[RankPlace]) -> Pair | None:
    """The first two ranks that share a host; None if no ranks do."""
    seen: dict[str, int] = {}
    for rank, place in enumerate(places):
        if place.host in seen:
            return Pair(seen[place.host], rank)
        seen[place.host] = rank
    return None
