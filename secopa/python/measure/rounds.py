# SPDX-License-Identifier: Apache-2.0
"""Which pairs of ranks measure at the same time: those that share no machine."""

from __future__ import annotations

from collections.abc import Sequence

from hipress.secopa.measure.letters import Pair
from hipress.secopa.measure.places import first_ranks
from hipress.secopa.profile import RankPlace


def link_rounds(places: Sequence[RankPlace]) -> list[list[Pair]]:
    """Every two hosts in both directions, the first rank of each; neighbours first, so that a few rounds tell something
    about every host."""
    ranks = list(first_ranks([place.host for place in places]).values())
    count = len(ranks)
    ordered = [
        Pair(ranks[index], ranks[(index + shift) % count]) for shift in range(1, count) for index in range(count)
    ]
    return rounds_of(ordered, places)


def rounds_of(ordered: Sequence[Pair], places: Sequence[RankPlace]) -> list[list[Pair]]:
    """These pairs, each in the first round in which nobody measures on its machines."""
    rounds: list[tuple[list[Pair], set[str]]] = []
    for pair in ordered:
        machines = {places[rank].machine for rank in pair}
        for pairs, busy in rounds:
            if not machines & busy:
                pairs.append(pair)
                busy |= machines
                break
        else:
            rounds.append(([pair], machines))
    return [pairs for pairs, _ in rounds]


def neighbours(places: Sequence[RankPlace]) -> Pair | None:
    """The first two ranks that share a host; None: there are none."""
    seen: dict[str, int] = {}
    for rank, place in enumerate(places):
        if place.host in seen:
            return Pair(seen[place.host], rank)
        seen[place.host] = rank
    return None
