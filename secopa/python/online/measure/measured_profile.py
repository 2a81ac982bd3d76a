# SPDX-License-Identifier: Apache-2.0
"""Measures a whole profile in a given time, and gives all ranks the same profile."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TypeVar

from hipress import _core
from hipress.errors import InvalidArgument
from hipress.secopa.online.measure.codec_costs import SIZES, Arena, CodecMeasurement, sum_crowding, sum_curve
from hipress.secopa.online.measure.crowding import MOST_CORES
from hipress.secopa.online.measure.link_costs import measure_pairs
from hipress.secopa.online.measure.linked_costs import LinkedMeasurement
from hipress.secopa.online.measure.overheads import measure_overheads
from hipress.secopa.online.measure.places import describe_machine, first_ranks, gather_places
from hipress.secopa.online.measure.point_to_point import Pair
from hipress.secopa.online.measure.session import Session
from hipress.secopa.online.measure.turns import link_turns, neighbours, turns_of
from hipress.secopa.online.measure.typical_link import better, typical, unlike
from hipress.secopa.online.measure.whole_steps import in_steps
from hipress.secopa.profile.curves import MeasuredCurve
from hipress.secopa.profile.document import Part
from hipress.secopa.profile.gradients import GradientSet
from hipress.secopa.profile.linked import LinkedCosts
from hipress.secopa.profile.links import LinkBetween, LinkCosts
from hipress.secopa.profile.profile import CodecCosts, Overheads, Profile, RankPlace

_Costs = TypeVar("_Costs", CodecCosts, LinkedCosts)

#: Shares of the time for computing and for whole steps; links get the rest.
_COMPUTING_SHARE, _STEPS_SHARE = 0.4, 0.3
#: Share of the time to measure links again that seem to differ from the others.
_AGAIN_SHARE = 0.2
#: With fewer links no link can be called typical.
_FEWEST_ALIKE = 3
#: Seconds for a pair of ranks if there is enough time, and the smallest number of seconds.
_PAIR_S = 0.7
_SHORTEST_PAIR_S = 0.15
#: The link of a job with one rank, which sends nothing.
_ALONE = LinkCosts(latency_s=0.0, bandwidth_bytes_per_s=1e12)


@dataclass(frozen=True)
class MeasureOptions:
    """The options of a measurement; they are the same on all ranks."""

    codecs: tuple[str, ...]
    """The texts of the codecs."""
    seconds: float = 20.0
    """Approximate duration of the measurement."""
    largest_elements: int = SIZES[-1]
    """Elements of the largest encoded tensor. The first rank of a machine needs several times its memory."""
    compute_threads: int = 1
    """Compute threads of each rank."""
    made: str = "measured"
    """The program that measures, for readers of the profile."""


class _LocalCosts(Part):
    """The costs of one machine."""

    codecs: dict[str, CodecCosts]
    linked: dict[str, LinkedCosts]
    sum: MeasuredCurve
    sum_crowding: tuple[float, ...]
    overheads: Overheads


def measure_profile(
    engine: _core.Engine,
    options: MeasureOptions,
    gradients: GradientSet | None = None,
    stage: Callable[[str], None] | None = None,
) -> Profile:
    """Measures a profile. All ranks call it together while no operation is in flight, and get the same profile.

    `stage` is called on this rank with the name of the part that is measured next.

    Raises InvalidArgument for an unknown codec, and for one whose sums cannot hold as many ranks; PeerLost, Timeout.
    """
    for text in options.codecs:
        # A wrong codec raises before the measurement starts.
        check_ranks(text, _core.create_codec(text), engine.world_size)
    if options.largest_elements < SIZES[0]:
        raise InvalidArgument(f"largest_elements={options.largest_elements}: expected {SIZES[0]} or more")
    steps_s = _STEPS_SHARE * options.seconds
    session = Session(engine, options.seconds - steps_s, stage)
    places = gather_places(session)
    local = _computing(session, places, options)
    links = _links(session, places, local.overheads)
    pair = neighbours(places)
    shared = _pairs(session, [pair], [pair], local.overheads)[pair] if pair is not None else None
    if not links and shared is not None:
        links = {Pair(0, 0): shared}  # one host has no links: shared memory stands for one
    default = typical(list(links.values())) if links else _ALONE
    profile = Profile(
        made=f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC, {options.made}",
        machine=describe_machine(places),
        ranks=places,
        compute_threads=options.compute_threads,
        codecs=local.codecs,
        linked=local.linked,
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
    # The date and the processor's name differ between ranks, so all ranks take rank 0's profile.
    said = session.gather(profile.to_json() if session.rank == 0 else None)
    return in_steps(session, Profile.parse(said[0], "rank 0's profile"), steps_s)


def is_linked(codec: _core.Codec) -> bool:
    """Whether a tensor with this codec travels as two linked tensors."""
    return codec.low_rank is not None or codec.summed is not None


def check_ranks(text: str, codec: _core.Codec, world: int) -> None:
    """Raises InvalidArgument if so many ranks cannot add the levels of the codec."""
    if codec.summed is not None and world > codec.summed[2]:
        raise InvalidArgument(
            f"codec '{text}' adds levels of up to {codec.summed[1]} in 8 bits, which holds the sum of "
            f"{codec.summed[2]} ranks at most, and there are {world}: choose options with levels of up to "
            f"{127 // world}, or another codec"
        )


def _computing(session: Session, places: Sequence[RankPlace], options: MeasureOptions) -> _LocalCosts:
    """Measures on the first rank of each machine while the other ranks are idle.

    The profile gets the costs of the slowest machine, because a step ends when it has ended on all machines.
    """
    mine = None
    if session.rank in first_ranks([place.machine for place in places]).values():
        mine = _local_costs(options, places[session.rank].cores, session.stage).model_dump_json()
    found = [_LocalCosts.model_validate_json(one) for one in session.gather(mine) if one is not None]
    return _LocalCosts(
        codecs={text: _slowest_costs([one.codecs[text] for one in found]) for text in found[0].codecs},
        linked={text: _slowest_costs([one.linked[text] for one in found]) for text in found[0].linked},
        sum=_slowest_curve([one.sum for one in found]),
        sum_crowding=max(one.sum_crowding for one in found),
        overheads=Overheads(
            submission_s=max(one.overheads.submission_s for one in found),
            task_s=max(one.overheads.task_s for one in found),
        ),
    )


def _local_costs(options: MeasureOptions, cores: int, stage: Callable[[str], None]) -> _LocalCosts:
    sizes = [size for size in SIZES if size <= options.largest_elements]
    arena = Arena(sizes[-1])
    # More threads than cores would wait for each other.
    threads = sorted({1, min(options.compute_threads, cores)})
    budget_s = options.seconds * _COMPUTING_SHARE / (len(options.codecs) + 1)
    busy = min(cores, MOST_CORES)
    codecs, linked = {}, {}
    for number, text in enumerate(options.codecs, start=1):
        stage(f"codec {text}, {number} of {len(options.codecs)}")
        if is_linked(_core.create_codec(text)):
            linked[text] = LinkedMeasurement(text, arena, budget_s, threads, busy, sizes).measure()
        else:
            codecs[text] = CodecMeasurement(text, arena, budget_s, threads, busy, sizes).measure()
    stage("the engine")
    return _LocalCosts(
        codecs=codecs,
        linked=linked,
        sum=sum_curve(arena, budget_s / 3, sizes),
        sum_crowding=sum_crowding(arena, busy),
        overheads=measure_overheads(),
    )


def _slowest_costs(found: Sequence[_Costs]) -> _Costs:
    # Machines with fewer cores have measured fewer numbers of threads.
    threads = sorted(set.intersection(*(set(one.threads) for one in found)))
    times = {count: _slowest_times([one.threads[count] for one in found]) for count in threads}
    return found[0].model_copy(update={"threads": times, "crowding": max(one.crowding for one in found)})


def _slowest_times(found: Sequence[Part]) -> Part:
    """Each field is a curve."""
    fields = type(found[0]).model_fields
    return found[0].model_copy(update={name: _slowest_curve([getattr(one, name) for one in found]) for name in fields})


def _slowest_curve(curves: Sequence[MeasuredCurve]) -> MeasuredCurve:
    """The slowest point of each size."""
    points = zip(*(curve.points for curve in curves), strict=True)
    return MeasuredCurve(points=tuple(max(size, key=lambda point: point.median_s) for size in points))


def _links(session: Session, places: Sequence[RankPlace], overheads: Overheads) -> dict[Pair, LinkCosts]:
    """Measures as many turns as there is time for, at least one."""
    turns = link_turns(places)
    links: dict[Pair, LinkCosts] = {}
    for done, pairs in enumerate(turns):
        left = session.time_left()
        if done and left < _SHORTEST_PAIR_S:
            break
        session.stage(f"links, turn {done + 1} of {len(turns)}")
        links |= _pairs(session, pairs, _sharing(pairs, places), overheads, left / (len(turns) - done))
    return _looked_at_again(session, places, links, overheads)


def _looked_at_again(
    session: Session, places: Sequence[RankPlace], links: Mapping[Pair, LinkCosts], overheads: Overheads
) -> dict[Pair, LinkCosts]:
    """Measures links again that seem to differ from the typical one, and keeps the better measurement of each.

    Other work during a measurement can only make a link look slower.
    """
    if len(links) < _FEWEST_ALIKE:
        return dict(links)
    usual = typical(list(links.values()))
    turns = turns_of([pair for pair, costs in links.items() if unlike(costs, usual)], places)
    found = dict(links)
    for pairs in turns:
        again = _pairs(session, pairs, _sharing(pairs, places), overheads, _AGAIN_SHARE * session.seconds / len(turns))
        found |= {pair: better(links[pair], costs) for pair, costs in again.items()}
    return found


def _sharing(pairs: Sequence[Pair], places: Sequence[RankPlace]) -> list[Pair]:
    return [pair for pair in pairs if places[pair.source].machine == places[pair.destination].machine]


def _pairs(
    session: Session, pairs: Sequence[Pair], sharing: Sequence[Pair], overheads: Overheads, seconds: float = _PAIR_S
) -> dict[Pair, LinkCosts]:
    seconds = min(_PAIR_S, max(_SHORTEST_PAIR_S, seconds))
    return measure_pairs(session, pairs, sharing, submission_s=overheads.submission_s, seconds=seconds)
