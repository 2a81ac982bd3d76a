# SPDX-License-Identifier: Apache-2.0
"""Translates a profile for the simulation in the core; core/simulation/step_description.h explains each number."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING

from hipress._library import load_core
from hipress.secopa.profile.curves import CostCurve, EncodedSizes, MeasuredCurve
from hipress.secopa.profile.linked import LinkedCosts
from hipress.secopa.profile.links import LinkCosts
from hipress.secopa.profile.profile import CodecCosts, Profile, RankPlace

if TYPE_CHECKING:
    from hipress import _core

Points = list[tuple[float, float]]

#: Sizes in bytes at which a curve is sampled, besides its measured sizes. Above the last one the slope is constant.
_SIZES = (0, *(2**power for power in range(8, 35, 2)))
#: Processor seconds of one bundled message at each end: half the cost of a message through shared memory, which needs
#: no system call.
_BUNDLED_MESSAGE_S = 1e-6


def simulated_cluster(profile: Profile, world: int) -> _core.SimulatedCluster:
    """Ranks, hosts and machines, and the links between them."""
    core = load_core()
    places = profile.places(world)
    hosts = numbered(place.host for place in places)
    machines = numbered(place.machine for place in places)
    of_host = {place.host: place for place in places}
    of_machine = {place.machine: place for place in places}
    shared = profile.shared_memory or profile.link
    unlike = [
        (hosts[link.source], hosts[link.destination], simulated_link(link.costs))
        for link in profile.links
        if link.source in hosts and link.destination in hosts
    ]
    cluster: _core.SimulatedCluster = core.SimulatedCluster(
        hosts=[hosts[place.host] for place in places],
        machines=[machines[of_host[host].machine] for host in hosts],
        cores=[of_machine[machine].cores for machine in machines],
        network=simulated_link(profile.link),
        shared_memory=simulated_link(shared),
        unlike=unlike,
        compute_threads=profile.compute_threads,
        # One processor copies a neighbour's memory.
        read_s_per_byte=1 / shared.bandwidth_bytes_per_s,
    )
    return cluster


def numbered(names: Iterable[str]) -> dict[str, int]:
    """A number for each distinct name, in the order of first appearance."""
    return {name: number for number, name in enumerate(dict.fromkeys(names))}


def simulated_link(link: LinkCosts) -> _core.SimulatedLink:
    """A link without the processors' share of the measured latency: the simulation adds that share itself."""
    processors_s = link.send_cpu_s_per_message + link.receive_cpu_s_per_message
    made: _core.SimulatedLink = load_core().SimulatedLink(
        bytes_per_s=link.both_ways_bytes_per_s,
        latency_s=max(0.0, link.latency_s - processors_s),
        send_s_per_message=link.send_cpu_s_per_message,
        send_s_per_byte=link.send_cpu_s_per_byte,
        receive_s_per_message=link.receive_cpu_s_per_message,
        receive_s_per_byte=link.receive_cpu_s_per_byte,
    )
    return made


def engine_costs(profile: Profile) -> _core.EngineCosts:
    """The costs of submission, tasks, bundles and raw sums."""
    core = load_core()
    per_message_s = max(profile.link.send_cpu_s_per_message, profile.link.receive_cpu_s_per_message)
    engine: _core.EngineCosts = core.EngineCosts(
        submission_s=profile.overheads.submission_s,
        task_s=profile.overheads.task_s,
        bundled_message_s=min(_BUNDLED_MESSAGE_S, per_message_s),
        sum=core.ComputeCosts([points_of(profile.sum)], profile.sum_crowding),
    )
    return engine


def simulated_codec(costs: CodecCosts) -> _core.SimulatedCodec:
    core = load_core()

    def kind(name: str) -> _core.ComputeCosts:
        curves = [getattr(costs.times(count), name) for count in range(1, max(costs.threads) + 1)]
        part = "merging" if name == "merge" else "coding"
        by_threads = [
            [(size, getattr(costs.in_step(size), part) * value) for size, value in points_of(curve)] for curve in curves
        ]
        made: _core.ComputeCosts = core.ComputeCosts(by_threads, costs.crowding)
        return made

    made: _core.SimulatedCodec = core.SimulatedCodec(
        kind("encode"),
        kind("decode"),
        kind("merge"),
        _encoded_points(costs.encoded),
        merges_decoded=costs.merges_decoded,
    )
    return made


def simulated_computations(costs: LinkedCosts) -> list[_core.ComputeCosts]:
    """The computations before the first linked tensor, between both, and after the second one."""
    core = load_core()

    def kind(name: str) -> _core.ComputeCosts:
        curves = [getattr(costs.times(count), name) for count in range(1, max(costs.threads) + 1)]
        by_threads = [[(size, costs.in_steps * value) for size, value in points_of(curve)] for curve in curves]
        made: _core.ComputeCosts = core.ComputeCosts(by_threads, costs.crowding)
        return made

    return [kind("first"), kind("second"), kind("result")]


def points_of(curve: CostCurve) -> Points:
    """The curve as points, at fixed sizes and at its measured sizes."""
    sizes = set(_SIZES)
    if isinstance(curve, MeasuredCurve):
        sizes.update(point.bytes for point in curve.points)
    return [(size, curve.seconds(size)) for size in sorted(sizes)]


def _encoded_points(sizes: EncodedSizes) -> Points:
    asked = {*_SIZES, *(point.raw_bytes for point in sizes.points)}
    return [(size, sizes.of(size)) for size in sorted(asked)]


def are_alike(places: tuple[RankPlace, ...]) -> bool:
    """Whether all hosts have the same number of ranks, and all machines the same numbers of hosts and cores."""
    ranks: dict[str, int] = {}
    hosts: dict[str, set[str]] = {}
    for place in places:
        ranks[place.host] = ranks.get(place.host, 0) + 1
        hosts.setdefault(place.machine, set()).add(place.host)
    cores = {place.cores for place in places}
    return all(
        one == other
        for counts in (list(ranks.values()), [len(each) for each in hosts.values()], list(cores))
        for one, other in pairwise(counts)
    )
