# SPDX-License-Identifier: Apache-2.0
"""The timeline model simulates a step from a profile, and reports what the step takes."""

from __future__ import annotations

import time

import pytest

from hipress.errors import InvalidArgument
from hipress.secopa.models.registry import make_model
from hipress.secopa.models.timeline import TimelineModel, TimelineOptions
from hipress.secopa.plan.choice import Choice
from hipress.secopa.profile.gradients import Gradient, GradientSet, read_gradients
from hipress.secopa.profile.links import LinkBetween, LinkCosts
from hipress.secopa.profile.profile import InSteps, Profile, RankPlace, read_profile
from tests.secopa.profiles import codec as codec_costs
from tests.secopa.profiles import profile

MIB = 1 << 20


def gradients(count=8, elements=4 * MIB, release_s=None, backward_s=0.0):
    return GradientSet(
        gradients=tuple(Gradient(name=f"g{index}", elements=elements, release_s=release_s) for index in range(count)),
        backward_s=backward_s,
    )


def test_it_is_found_by_name():
    assert make_model("timeline", profile(), 4).name == "timeline"


def test_a_slow_network_makes_compressing_worth_it_and_a_fast_one_does_not():
    for bandwidth, worth in ((1.25e8, True), (1.25e12, False)):
        model = TimelineModel(profile(bandwidth=bandwidth), 4)
        raw = model.step(gradients(), [Choice(partitions=4)] * 8)
        compressed = model.step(gradients(), [Choice("onebit", partitions=4)] * 8)
        assert (compressed.step_s < raw.step_s) == worth


def test_a_prediction_says_what_every_rank_sends_and_when_each_gradient_is_there():
    model = TimelineModel(profile(), 4)
    found = model.step(gradients(), [Choice(partitions=4)] * 8)
    assert found.sent_bytes == pytest.approx((8 * 2 * 4 * 4 * MIB * 3 / 4,) * 4, rel=0.01)
    assert len(found.gradients) == 8
    assert max(one.end_s for one in found.gradients) == pytest.approx(found.step_s)
    assert all(0 <= one.start_s < one.end_s for one in found.gradients)
    assert len(found.cpu_s) == 4
    assert min(found.cpu_s) > 0


def test_gradients_are_released_as_the_set_says_and_a_step_is_no_shorter_than_backward():
    tiny = GradientSet(
        gradients=(Gradient(name="a", elements=10), Gradient(name="b", elements=10, release_s=0.25)), backward_s=1.0
    )
    found = TimelineModel(profile(), 2).step(tiny, [Choice()] * 2)
    assert [one.start_s for one in found.gradients] == [1.0, 0.25]
    assert found.gradients[1].end_s < 0.26
    assert found.step_s == pytest.approx(1.0, abs=0.01)
    alone = tiny.model_copy(update={"gradients": (tiny.gradients[1],)})
    assert TimelineModel(profile(), 2).step(alone, [Choice()]).step_s == 1.0


def test_a_group_travels_as_one_when_its_last_member_is_there():
    members = GradientSet(
        gradients=(
            Gradient(name="a", elements=1000, release_s=0.2),
            Gradient(name="b", elements=1000, release_s=0.1),
            Gradient(name="c", elements=1000, release_s=0.0),
        ),
        backward_s=0.2,
    )
    model = TimelineModel(profile(), 2)
    found = model.step(members, [Choice(group="g"), Choice(group="g"), Choice()])
    assert found.gradients[0] == found.gradients[1]
    assert found.gradients[1].start_s == 0.2
    assert found.gradients[2].end_s < 0.1


def test_small_gradients_in_a_group_take_fewer_messages():
    costly = profile(bandwidth=1.25e10)
    link = costly.link.model_copy(update={"send_cpu_s_per_message": 1e-4, "receive_cpu_s_per_message": 1e-4})
    model = TimelineModel(costly.model_copy(update={"link": link}), 2)
    small = gradients(count=50, elements=8192)
    alone = model.step(small, [Choice()] * 50)
    together = model.step(small, [Choice(group="g", partitions=2)] * 50)
    assert together.step_s < alone.step_s / 2


def test_one_gradient_alone_takes_what_gradient_s_says():
    model = TimelineModel(profile(), 4)
    choice = Choice("onebit", "ring", 4)
    assert model.gradient_s(MIB, choice) == model.step(gradients(1, MIB), [choice]).step_s


def test_half_precision_has_half_the_bytes_and_costs_a_codec_as_much():
    half = GradientSet(gradients=(Gradient(name="g", elements=4 * MIB, dtype="float16"),))
    model = TimelineModel(profile(), 2)
    raw, single = (model.step(one, [Choice(partitions=2)]) for one in (half, gradients(1)))
    assert raw.sent_bytes[0] == pytest.approx(single.sent_bytes[0] / 2, rel=0.001)
    encoded, also = (model.step(one, [Choice("onebit", partitions=2)]) for one in (half, gradients(1)))
    assert encoded.sent_bytes == also.sent_bytes


def test_hosts_of_one_machine_share_its_cores():
    slow = profile({"onebit": codec_costs(1 / 32, 1e8)}, bandwidth=1e12)
    places = tuple(RankPlace(host=f"h{rank}", machine="one", cores=2) for rank in range(4))
    choices = [Choice("onebit", partitions=4)] * 8
    own = TimelineModel(slow, 4).step(gradients(), choices)
    shared = TimelineModel(slow.model_copy(update={"ranks": places}), 4).step(gradients(), choices)
    assert shared.step_s > 1.8 * own.step_s


def test_computing_is_slowed_down_by_busy_cores_as_the_profile_says():
    alone = codec_costs(1 / 32, 1e8)
    crowded = alone.model_copy(update={"crowding": (1.0, 2.0)})
    places = tuple(RankPlace(host=f"h{rank}", machine="one", cores=2) for rank in range(2))
    steps = [
        TimelineModel(profile({"onebit": costs}).model_copy(update={"ranks": places}), 2)
        .step(gradients(), [Choice("onebit", partitions=2)] * 8)
        .step_s
        for costs in (alone, crowded)
    ]
    assert steps[1] == pytest.approx(2 * steps[0], rel=0.1)


def test_inside_steps_codecs_and_messages_cost_what_the_profile_says():
    gradients = GradientSet(gradients=(Gradient(name="g", elements=1 << 20),))
    alone = profile(link_cpu_s_per_byte=1e-9)
    costs = alone.codec("onebit")
    factors = (InSteps(partition_bytes=1, coding=3.0, merging=3.0),)
    in_steps = alone.model_copy(
        update={"messages_in_steps": {"ps": 2.0}, "codecs": {"onebit": costs.model_copy(update={"in_steps": factors})}}
    )
    for codec in ("none", "onebit"):
        before, after = (TimelineModel(one, 2).step(gradients, [Choice(codec, "ps", 2)]) for one in (alone, in_steps))
        computing_s, others_s = before.computing_s[0], before.cpu_s[0] - before.computing_s[0]
        assert others_s > 0
        if codec == "onebit":
            assert after.computing_s[0] > 2 * computing_s  # adding, which needs no codec, does not become slower
        assert after.cpu_s[0] - after.computing_s[0] == pytest.approx(2 * others_s, rel=0.01)


def test_messages_of_each_topology_cost_what_whole_steps_of_it_did():
    gradients = GradientSet(gradients=tuple(Gradient(name=name, elements=1 << 20) for name in "ab"))
    alone = profile(link_cpu_s_per_byte=1e-9)
    measured = alone.model_copy(update={"messages_in_steps": {"ps": 2.0, "ring": 3.0}})

    def messages_s(costs: Profile, *topologies: str) -> float:
        told = TimelineModel(costs, 2).step(gradients, [Choice("none", topology, 2) for topology in topologies])
        return told.cpu_s[0] - told.computing_s[0]

    once = messages_s(alone, "ps", "ps")
    assert messages_s(measured, "ps", "ps") == pytest.approx(2 * once, rel=0.01)
    assert messages_s(measured, "ring", "ring") == pytest.approx(3 * once, rel=0.01)
    assert messages_s(measured, "ps", "ring") == pytest.approx(2.5 * once, rel=0.01)
    # The profile has no measurement for allgather, so the factor of ps applies.
    everybody = messages_s(alone, "allgather", "allgather")
    assert messages_s(measured, "allgather", "allgather") == pytest.approx(2 * everybody, rel=0.01)


def test_a_slower_link_to_one_host_is_waited_for():
    places = tuple(RankPlace(host=f"h{rank}", machine=f"h{rank}", cores=2) for rank in range(3))
    slow = LinkCosts(latency_s=5e-5, bandwidth_bytes_per_s=1.25e7)
    links = tuple(
        LinkBetween(source=one, destination=other, costs=slow)
        for one, other in (("h0", "h2"), ("h2", "h0"), ("h1", "h2"), ("h2", "h1"))
    )
    choices = [Choice(partitions=3)] * 8
    even = TimelineModel(profile().model_copy(update={"ranks": places}), 3).step(gradients(), choices)
    found = TimelineModel(profile().model_copy(update={"ranks": places, "links": links}), 3)
    assert found.step(gradients(), choices).step_s > 5 * even.step_s


def test_many_ranks_are_simulated_by_one_that_stands_for_all():
    model, exact = (TimelineModel(profile(), 16, TimelineOptions(exact_up_to=limit)) for limit in (8, 16))
    for topology in ("ps", "ring"):
        choices = [Choice("onebit", topology, 16)] * 8
        found, wanted = (one.step(gradients(), choices) for one in (model, exact))
        assert found.step_s == pytest.approx(wanted.step_s, rel=0.1)
        assert len(found.sent_bytes) == 16


def test_where_none_can_stand_for_all_they_are_simulated_one_by_one():
    places = tuple(RankPlace(host=f"h{rank // 2}", machine=f"h{rank // 2}", cores=2) for rank in range(12))
    shared = LinkCosts(latency_s=1e-6, bandwidth_bytes_per_s=1e10)
    pairs = profile().model_copy(update={"ranks": places, "shared_memory": shared})
    found = TimelineModel(pairs, 12).step(gradients(), [Choice(topology="ring", partitions=12)] * 8)
    # Of a host's two ranks, one sends to the other, and one sends to another host.
    assert sorted(found.sent_bytes)[0] < sorted(found.sent_bytes)[-1] / 10


def test_the_published_profile_can_be_simulated():
    published = read_profile("sosp21-56g")
    known = next(iter(published.codecs))
    model = TimelineModel(published, 16)
    compressed, raw = (model.gradient_s(100 * MIB, Choice(codec, partitions=16)) for codec in (known, "none"))
    assert compressed < raw


def test_an_unknown_codec_is_refused():
    with pytest.raises(InvalidArgument, match="has no codec 'morse'"):
        TimelineModel(profile(), 2).step(gradients(1), [Choice("morse")])


def test_sixteen_nodes_with_four_hundred_gradients_take_a_moment():
    model = TimelineModel(profile(), 16)
    # Most gradients are small, as in a current model.
    sizes = [1 << (8 + index % 14) for index in range(400)]
    many = GradientSet(gradients=tuple(Gradient(name=f"g{i}", elements=size) for i, size in enumerate(sizes)))
    choices = [Choice("onebit", partitions=min(16, -(-size // 32768))) for size in sizes]
    started = time.process_time()
    model.step(many, choices)
    assert time.process_time() - started < 3.0


@pytest.mark.parametrize("name", ["vgg19", "bert-base"])
def test_gradient_sets_of_the_benchmarks_can_be_simulated(name):
    known = read_gradients(f"benchmarks/models/{name}.json")
    found = TimelineModel(profile(), 4).step(known, [Choice("onebit", partitions=4)] * len(known.gradients))
    assert found.step_s >= known.backward_s
