# SPDX-License-Identifier: Apache-2.0
"""Profiles of imagined clusters, and the predicted time of a step on them."""

from __future__ import annotations

import pytest

from hipress.errors import InvalidArgument
from hipress.secopa.profile.gradients import Gradient, GradientSet
from hipress.secopa.profile.links import LinkCosts
from hipress.secopa.profile.profile import RankPlace
from hipress.secopa.whatif.scenario import Scenario, profile_for
from hipress.secopa.whatif.simulate import POINTLESS, Computing, UniformChoice, pointless_from, simulate_uniform
from tests.secopa.profiles import codec, profile

MIB = 1 << 20
SHARED = LinkCosts(latency_s=1e-6, bandwidth_bytes_per_s=1e10)
GRADIENTS = GradientSet(
    gradients=tuple(Gradient(name=f"g{index}", elements=4 * MIB, release_s=0.01 * (8 - index)) for index in range(8)),
    backward_s=0.08,
)


def test_nodes_are_machines_of_their_own_with_the_cores_that_were_measured():
    places = profile_for(profile(), Scenario(nodes=3)).ranks
    assert len({place.host for place in places}) == len({place.machine for place in places}) == 3
    assert {place.cores for place in places} == {2}


def test_emulated_nodes_share_one_machine():
    places = profile_for(profile(), Scenario(nodes=3, one_machine=True)).ranks
    assert len({place.host for place in places}) == 3
    assert len({place.machine for place in places}) == 1


def test_another_network_replaces_the_measured_one():
    there = profile_for(profile(), Scenario(nodes=2, bandwidth_bytes_per_s=1e10, latency_s=1e-6))
    assert there.link.both_ways_bytes_per_s == 1e10
    assert there.link.latency_s == 1e-6
    as_measured = profile_for(profile(), Scenario(nodes=2))
    assert as_measured.link == profile().link


def test_links_of_hosts_that_were_measured_are_not_those_of_others():
    places = tuple(RankPlace(host=name, machine=name, cores=2) for name in ("a", "b"))
    slow = [{"source": "a", "destination": "b", "costs": {"latency_s": 1, "bandwidth_bytes_per_s": 1}}]
    measured = profile().model_validate(profile().model_dump() | {"ranks": places, "links": slow})
    assert measured.between("a", "b").latency_s == 1
    there = profile_for(measured, Scenario(nodes=2))
    assert there.links == ()
    assert there.between("node0", "node1") == measured.link


def test_several_ranks_on_a_node_need_shared_memory_measured():
    with pytest.raises(InvalidArgument, match="several ranks per host"):
        profile_for(profile(), Scenario(nodes=2, ranks_per_node=2))
    measured = profile().model_copy(update={"shared_memory": SHARED, "compute_threads": 2})
    there = profile_for(measured, Scenario(nodes=2, ranks_per_node=2))
    assert [place.host for place in there.ranks] == ["node0", "node0", "node1", "node1"]
    assert there.compute_threads == 1  # two ranks share two cores


def test_no_nodes_are_refused():
    with pytest.raises(InvalidArgument, match="at least one host"):
        profile_for(profile(), Scenario(nodes=0))


def test_small_gradients_are_not_compressed():
    both = GradientSet(gradients=(Gradient(name="small", elements=1000), Gradient(name="large", elements=MIB)))
    small, large = UniformChoice("onebit").choices(both, profile(), 4)
    assert (small.codec, large.codec) == ("none", "onebit")
    assert (small.partitions, large.partitions) == (1, 4)


def test_efficiency_is_what_of_the_time_computing_takes():
    row = simulate_uniform(profile(), GRADIENTS, Scenario(nodes=4), UniformChoice())
    assert row.efficiency == pytest.approx((0.08 + 0.04) / (row.step_s + 0.04))
    row = simulate_uniform(profile(), GRADIENTS, Scenario(nodes=4), UniformChoice(), Computing(forward_s=1.0))
    assert row.efficiency == pytest.approx(1.08 / (1 + row.step_s))
    fast = simulate_uniform(profile(), GRADIENTS, Scenario(nodes=4, bandwidth_bytes_per_s=1e11), UniformChoice())
    assert fast.efficiency == pytest.approx(1.0, abs=0.03)
    nobody_measured = GRADIENTS.model_copy(update={"backward_s": 0.0})
    assert (
        simulate_uniform(
            profile(), nobody_measured, Scenario(nodes=4), UniformChoice(), Computing(forward_s=0.0)
        ).efficiency
        is None
    )


def test_backward_on_the_cores_that_synchronising_needs_takes_longer():
    busy = profile({"onebit": codec(1 / 32, 1e9)})
    fast = Scenario(nodes=2, bandwidth_bytes_per_s=1e11)
    beside, on_them = (
        simulate_uniform(busy, GRADIENTS, fast, UniformChoice("onebit"), Computing(backward_threads=threads))
        for threads in (0, 2)
    )
    assert on_them.step_s > 1.05 * beside.step_s


def test_a_way_says_bytes_memory_and_time_of_processors():
    raw = simulate_uniform(profile(), GRADIENTS, Scenario(nodes=4), UniformChoice())
    encoded = simulate_uniform(profile(), GRADIENTS, Scenario(nodes=4), UniformChoice("onebit"))
    assert raw.sent_bytes == pytest.approx(2 * GRADIENTS.bytes * 3 / 4, rel=0.01)
    assert encoded.sent_bytes == pytest.approx(raw.sent_bytes / 32, rel=0.05)
    assert encoded.cpu_s > raw.cpu_s
    assert raw.memory_bytes == pytest.approx(GRADIENTS.bytes * 3 / 4)


def test_compressing_is_pointless_from_some_network_on():
    found = pointless_from(profile(), GRADIENTS, Scenario(nodes=4), ["onebit"], ["ps"])
    assert found is not None
    for bandwidth, pointless in ((found, True), (found / 1.1, False)):
        scenario = Scenario(nodes=4, bandwidth_bytes_per_s=bandwidth)
        raw, encoded = (
            simulate_uniform(profile(), GRADIENTS, scenario, UniformChoice(one)).step_s for one in ("none", "onebit")
        )
        assert (encoded > (1 - POINTLESS) * raw) == pointless


def test_a_codec_that_costs_more_than_any_network_is_always_pointless():
    slow = profile({"slow": codec(0.9, 1e5)})
    assert pointless_from(slow, GRADIENTS, Scenario(nodes=2), ["slow"], ["ps"]) == 1e6


def test_a_coordinator_is_asked_once_per_round():
    row = simulate_uniform(profile(), GRADIENTS, Scenario(nodes=4), UniformChoice())
    rounds = 2 * GRADIENTS.bytes * 3 / 4 / MIB
    assert row.questions == pytest.approx(4 * rounds, rel=0.01)
    # In a ring each rank has one link, so it asks the coordinator nothing.
    assert simulate_uniform(profile(), GRADIENTS, Scenario(nodes=4), UniformChoice(topology="ring")).questions == 0
    assert simulate_uniform(profile(), GRADIENTS, Scenario(nodes=2), UniformChoice()).questions == 0
