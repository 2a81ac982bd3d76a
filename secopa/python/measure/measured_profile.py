# SPDX-License-Identifier: Apache-2.0
"""Measures everything a profile says, in a given time, and gives all ranks the same profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from hipress import _core
from hipress.errors import InvalidArgument
from hipress.secopa.curves import MeasuredCurve
from hipress.secopa.document import Part
from hipress.secopa.gradients import GradientSet
from hipress.secopa.links import LinkBetween, LinkCosts
from hipress.secopa.measure.codec_costs import SIZES, Arena, CodecMeasurement, sum_crowding, sum_curve
from hipress.secopa.measure.crowding import MOST_CORES
from hipress.secopa.measure.letters import Pair
from hipress.secopa.measure.link_costs import measure_pairs
from hipress.secopa.measure.overheads import measure_overheads
from hipress.secopa.measure.places import describe_machine, first_ranks, gather_places
from hipress.secopa.measure.rounds import link_rounds, neighbours, rounds_of
from hipress.secopa.measure.session import Session
from hipress.secopa.measure.typical_link import better, typical, unlike
from hipress.secopa.measure.whole_steps import in_steps
from hipress.secopa.profile import CodecCosts, CodecTimes, Overheads, Profile, RankPlace

#: Of the time, what computing and whole steps get; the rest is the links'.
_COMPUTING_SHARE, _STEPS_SHARE = 0.4, 0.3
#: And what links that seem unlike the others get once more.
_AGAIN_SHARE = 0.2
#: Of fewer links nobody can say which is unlike the others.
_FEWEST_ALIKE = 3
#: Of a pair of ranks (seconds), if there is time for it.
_PAIR_S = 0.7
_SHORTEST_PAIR_S = 0.15
#: Of a rank that is alone: nothing is sent, and a profile says something about links.
_ALONE = LinkCosts(latency_s=0.0, bandwidth_bytes_per_s=1e12)


@dataclass(frozen=True)
class MeasureOptions:
    """What to measure, alike on all ranks."""

    codecs: tuple[str, ...]
    """Their texts."""
    seconds: float = 20.0
    """About how long it may take."""
    largest_elements: int = SIZES[-1]
    """Of a tensor that is encoded. The first rank of a machine needs several times its memory."""
    compute_threads: int = 1
    """Of each rank."""
    made: str = "measured"
    """By what, for the reader."""


class _LocalCosts(Part):
    """What one machine finds by itself."""

    codecs: dict[str, CodecCosts]
    sum: MeasuredCurve
    sum_crowding: tuple[float, ...]
    overheads: Overheads


def measure_profile(engine: _core.Engine, options: MeasureOptions, gradients: GradientSet | None = None) -> Profile:
    """All ranks call it together, while nothing is in flight, and get the same profile.

    Raises InvalidArgument for codecs that do not exist, PeerLost, Timeout.
    """
    for text in options.codecs:
        _core.create_codec(text)  # Before anything is measured.
    if options.largest_elements < SIZES[0]:
        raise InvalidArgument(f"largest_elements={options.largest_elements}: expected {SIZES[0]} or more")
    steps_s = _STEPS_SHARE * options.seconds
    session = Session(engine, options.seconds - steps_s)
    places = gather_places(session)
    local = _computing(session, places, options)
    links = _links(session, places, local.overheads)
    pair = neighbours(places)
    shared = _pairs(session, [pair], [pair], local.overheads)[pair] if pair is not None else None
    if not links and shared is not None:
        links = {Pair(0, 0): shared}  # One host has no links; what its ranks have is all that is known.
    default = typical(list(links.values())) if links else _ALONE
    profile = Profile(
        made=f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC, {options.made}",
        machine=describe_machine(places),
        ranks=places,
        compute_threads=options.compute_threads,
        codecs=local.codecs,
        sum=local.sum,
        sum_crowding=local.sum_crowding,
        link=default,
        links=tuple(
            LinkBetween(source=places[pair.source].host, destination=places[pair.destination].host, costs=costs)
            for pair, costs in links.items()
            if pair.source != pair.destination and unlike(costs, default)
        ),
        shared_memory=shared,
        overheads=local.overheads,
        gradients=gradients,
    )
    # Times of day and processors' names differ; the profile is rank 0's.
    said = session.gather(profile.to_json() if session.rank == 0 else None)
    return in_steps(session, Profile.parse(said[0], "rank 0's profile"), steps_s)


def _computing(session: Session, places: Sequence[RankPlace], options: MeasureOptions) -> _LocalCosts:
    """The first rank of each machine measures, the others are idle. The slowest machine's costs are everybody's: a
    step ends when it has ended on all of them."""
    mine = None
    if session.rank in first_ranks([place.machine for place in places]).values():
        mine = _local_costs(options, places[session.rank].cores).model_dump_json()
    found = [_LocalCosts.model_validate_json(one) for one in session.gather(mine) if one is not None]
    return _LocalCosts(
        codecs={text: _slowest_codec([one.codecs[text] for one in found]) for text in options.codecs},
        sum=_slowest_curve([one.sum for one in found]),
        sum_crowding=max(one.sum_crowding for one in found),
        overheads=Overheads(
            submission_s=max(one.overheads.submission_s for one in found),
            task_s=max(one.overheads.task_s for one in found),
        ),
    )


def _local_costs(options: MeasureOptions, cores: int) -> _LocalCosts:
    sizes = [size for size in SIZES if size <= options.largest_elements]
    arena = Arena(sizes[-1])
    # Costs of more threads than there are cores would be those of waiting for each other.
    threads = sorted({1, min(options.compute_threads, cores)})
    budget_s = options.seconds * _COMPUTING_SHARE / (len(options.codecs) + 1)
    busy = min(cores, MOST_CORES)
    return _LocalCosts(
        codecs={
            text: CodecMeasurement(text, arena, budget_s, threads, busy, sizes).measure() for text in options.codecs
        },
        sum=sum_curve(arena, budget_s / 3, sizes),
        sum_crowding=sum_crowding(arena, busy),
        overheads=measure_overheads(),
    )


def _slowest_codec(found: Sequence[CodecCosts]) -> CodecCosts:
    # With the same options; but machines with fewer cores have not measured as many threads.
    threads = set.intersection(*(set(one.threads) for one in found))

    def slowest(count: int, what: str) -> MeasuredCurve:
        return _slowest_curve([getattr(one.threads[count], what) for one in found])

    times = {
        count: CodecTimes(
            encode=slowest(count, "encode"), decode=slowest(count, "decode"), merge=slowest(count, "merge")
        )
        for count in sorted(threads)
    }
    return found[0].model_copy(update={"threads": times, "crowding": max(one.crowding for one in found)})


def _slowest_curve(curves: Sequence[MeasuredCurve]) -> MeasuredCurve:
    """Size by size."""
    points = zip(*(curve.points for curve in curves), strict=True)
    return MeasuredCurve(points=tuple(max(size, key=lambda point: point.median_s) for size in points))


def _links(session: Session, places: Sequence[RankPlace], overheads: Overheads) -> dict[Pair, LinkCosts]:
    """As many as there is time for, at least those of one round."""
    rounds = link_rounds(places)
    links: dict[Pair, LinkCosts] = {}
    for done, pairs in enumerate(rounds):
        left = session.time_left()
        if done and left < _SHORTEST_PAIR_S:
            break
        links |= _pairs(session, pairs, _sharing(pairs, places), overheads, left / (len(rounds) - done))
    return _looked_at_again(session, places, links, overheads)


def _looked_at_again(
    session: Session, places: Sequence[RankPlace], links: Mapping[Pair, LinkCosts], overheads: Overheads
) -> dict[Pair, LinkCosts]:
    """Links that seem unlike the others are measured once more. Whatever else a machine did while one was measured made
    it look slower: the better measurement counts."""
    if len(links) < _FEWEST_ALIKE:
        return dict(links)
    usual = typical(list(links.values()))
    rounds = rounds_of([pair for pair, costs in links.items() if unlike(costs, usual)], places)
    found = dict(links)
    for pairs in rounds:
        again = _pairs(session, pairs, _sharing(pairs, places), overheads, _AGAIN_SHARE * session.seconds / len(rounds))
        found |= {pair: better(links[pair], costs) for pair, costs in again.items()}
    return found


def _sharing(pairs: Sequence[Pair], places: Sequence[RankPlace]) -> list[Pair]:
    return [pair for pair in pairs if places[pair.source].machine == places[pair.destination].machine]


def _pairs(
    session: Session, pairs: Sequence[Pair], sharing: Sequence[Pair], overheads: Overheads, seconds: float = _PAIR_S
) -> dict[Pair, LinkCosts]:
    seconds = min(_PAIR_S, max(_SHORTEST_PAIR_S, seconds))
    return measure_pairs(session, pairs, sharing, submission_s=overheads.submission_s, seconds=seconds)
