# SPDX-License-Identifier: Apache-2.0
"""The time of a simulated step equals a time that can be computed by hand."""

from __future__ import annotations

import pytest

from hipress import _core
from hipress.errors import InvalidArgument
from tests.core.simulation.clusters import RATE, Cluster, codec, costs, tensor

MIB = 1 << 20
HEADER = 32


def sent(step, rank=0):
    return step.ranks[rank].sent_bytes


@pytest.mark.parametrize("topology", ["ps", "ring"])
@pytest.mark.parametrize("hosts", [2, 3, 4, 8])
def test_bytes_are_those_of_the_formulas(topology, hosts):
    partitions = 2 * hosts
    elements = partitions * 1024 * 8
    step = Cluster(hosts).step([tensor(elements=elements, topology=topology, partitions=partitions)])
    messages = 2 * partitions * (hosts - 1) / hosts
    for rank in step.ranks:
        assert rank.messages == messages
        assert rank.sent_bytes == pytest.approx(2 * 4 * elements * (hosts - 1) / hosts + HEADER * messages)


def test_a_codec_shrinks_what_is_sent():
    plain = Cluster(4).step([tensor(partitions=4)])
    compressed = Cluster(4).step([tensor(partitions=4, codec=0)], [codec(1 / 32)])
    header = HEADER * plain.ranks[0].messages
    assert sent(compressed) - header == pytest.approx((sent(plain) - header) / 32)


def test_a_tensor_that_a_codec_would_not_shrink_is_sent_as_it_is():
    assert sent(Cluster(4).step([tensor(codec=0)], [codec(1.5)])) == sent(Cluster(4).step([tensor()]))


def test_a_link_limits_what_crosses_it():
    elements = 64 * MIB
    step = Cluster(2).step([tensor(elements=elements, topology="ps", partitions=64)])
    assert step.step_s == pytest.approx(4 * elements / RATE, rel=0.02)


def test_many_senders_share_one_receivers_link():
    # There is one partition: all ranks send to its owner, and get the result from it.
    elements = 16 * MIB
    step = Cluster(5).step([tensor(elements=elements, partitions=1)])
    assert step.step_s == pytest.approx(2 * 4 * 4 * elements / RATE, rel=0.05)


def test_latency_is_paid_once_per_hop():
    step = Cluster(4, latency_s=0.01).step([tensor(elements=1024, topology="ring", partitions=1)])
    assert step.step_s == pytest.approx(6 * 0.01, rel=0.01)
    assert Cluster(4, latency_s=0.01).step([tensor(elements=1024)]).step_s == pytest.approx(2 * 0.01, rel=0.01)


def test_the_slowest_link_is_waited_for():
    elements = 16 * MIB
    slow = [(2, other, RATE / 10) for other in (0, 1, 3)] + [(other, 2, RATE / 10) for other in (0, 1, 3)]
    equal = Cluster(4).step([tensor(elements=elements, partitions=16)])
    step = Cluster(4, unlike=slow).step([tensor(elements=elements, partitions=16)])
    assert step.step_s == pytest.approx(10 * equal.step_s, rel=0.1)


def test_ranks_of_one_machine_share_its_cores():
    tensors = [tensor(f"t{index}", 4 * MIB, codec=0, partitions=4) for index in range(8)]
    slow = [codec(seconds_per_byte=1e-8)]
    own = Cluster(4, cores=2).step(tensors, slow)
    shared = Cluster(4, cores=2, machines=[0, 0, 0, 0]).step(tensors, slow)
    assert shared.step_s == pytest.approx(4 * own.step_s, rel=0.15)
    assert sum(rank.cpu_s for rank in shared.ranks) == pytest.approx(2 * shared.step_s, rel=0.1)


def test_computing_takes_longer_where_busy_cores_slow_down_each_other():
    alone = _core.ComputeCosts([[(0, 0), (1e9, 1)]], [1.0, 1.6])
    assert alone.seconds(1e6, threads=1, busy=1) == pytest.approx(1e-3)
    assert alone.seconds(1e6, threads=1, busy=2) == pytest.approx(1.6e-3)
    assert alone.seconds(1e6, threads=1, busy=8) == pytest.approx(1.6e-3)
    # A measurement with two threads already contains the slowdown.
    shared = _core.ComputeCosts([[(0, 0), (1e9, 1)], [(0, 0), (1e9, 0.8)]], [1.0, 1.6])
    assert shared.seconds(1e6, threads=2, busy=2) == pytest.approx(0.8e-3)


def test_idle_threads_help_with_a_large_tensor():
    both = _core.ComputeCosts([[(0, 0), (1e9, 10)], [(0, 0), (1e9, 5)]])
    one = [_core.SimulatedCodec(both, both, both, [(0, 0), (1e9, 1e7)])]
    with_help = Cluster(2, threads=2).step([tensor(partitions=1, codec=0)], one)
    alone = Cluster(2, threads=1).step([tensor(partitions=1, codec=0)], one)
    assert with_help.step_s == pytest.approx(alone.step_s / 2, rel=0.05)


def test_processors_that_carry_bytes_limit_the_step():
    elements = 16 * MIB
    cluster = Cluster(2, cpu_per_byte_s=1e-8, threads=1)
    step = cluster.step([tensor(elements=elements, partitions=16)])
    # One thread both sends and receives.
    assert step.step_s == pytest.approx(2 * 4 * elements * 1e-8, rel=0.1)


def test_a_message_costs_the_processor_whatever_its_size():
    tensors = [tensor(f"t{index}", 64) for index in range(200)]
    alone = _core.EngineSettings(bundle_bytes=0)
    step = Cluster(2, per_message_s=1e-5).step(tensors, settings=alone)
    assert step.ranks[0].flights == step.ranks[0].messages
    assert step.ranks[0].cpu_s == pytest.approx(2 * step.ranks[0].messages * 1e-5, rel=0.01)


def test_small_messages_go_together_where_the_link_is_busy():
    tensors = [tensor(f"t{index}", 64) for index in range(200)]
    cluster = Cluster(2, per_message_s=1e-5)
    together = cluster.step(tensors)
    alone = cluster.step(tensors, settings=_core.EngineSettings(bundle_bytes=0))
    assert together.ranks[0].messages == alone.ranks[0].messages
    assert together.ranks[0].flights < alone.ranks[0].flights / 4
    assert together.step_s < alone.step_s / 2


def test_what_the_next_forward_pass_needs_first_is_there_first():
    tensors = [tensor(f"t{index}", MIB, partitions=2, priority=-index) for index in range(50)]
    small_window = {"window_bytes": MIB}
    step = Cluster(2).step(tensors, settings=_core.EngineSettings(**small_window))
    without = Cluster(2).step(tensors, settings=_core.EngineSettings(priorities=False, **small_window))
    assert step.gradients[0].end_s < without.gradients[0].end_s / 4
    assert step.step_s == pytest.approx(without.step_s, rel=0.05)


def test_gradients_travel_while_backward_computes_others():
    at_once = [tensor(f"t{index}", 4 * MIB, partitions=4) for index in range(10)]
    alone = Cluster(2).step(at_once).step_s
    in_turn = [tensor(f"t{index}", 4 * MIB, partitions=4, release=(10 - index) * alone / 10) for index in range(10)]
    step = Cluster(2).step(in_turn)
    assert step.backward_s == pytest.approx(alone)
    assert all(one.start_s == pytest.approx(given[7]) for one, given in zip(step.gradients, in_turn, strict=True))
    assert alone < step.step_s < 1.25 * alone


def test_backward_on_the_same_cores_takes_longer_the_more_ranks_share_them():
    tensors = [tensor("t", 1024, release=1.0)]
    for ranks in (1, 2, 4):
        cluster = Cluster(ranks, cores=2, machines=[0] * ranks)
        step = cluster.step(tensors, backward_threads=1, backward_s=1.0)
        assert step.backward_s == pytest.approx(max(1, ranks / 2), rel=0.01)


def test_submitting_takes_one_thread():
    tensors = [tensor(f"t{index}", 16) for index in range(100)]
    step = Cluster(2, submission_s=1e-3).step(tensors)
    assert step.backward_s == pytest.approx(0.1)
    assert step.gradients[99].start_s == pytest.approx(0.001)  # backward releases the last layer's gradient first


@pytest.mark.parametrize("topology", ["hierarchical", "hierarchical(ring)"])
def test_a_host_sends_once_what_all_its_ranks_have(topology):
    cluster = Cluster(hosts=4, per_host=4)
    tensors = [tensor(elements=16 * MIB, topology=topology, partitions=64)]
    step = cluster.step(tensors)
    flat = cluster.step([tensor(elements=16 * MIB, topology="ps", partitions=64)])
    of_all, flat_of_all = (sum(rank.sent_bytes for rank in one.ranks) for one in (step, flat))
    assert of_all == pytest.approx(flat_of_all / 4, rel=0.01)


def test_neighbours_read_gradients_instead_of_being_sent_them():
    tensors = [tensor(elements=16 * MIB, topology="hierarchical", codec=0, partitions=4)]
    step = Cluster(hosts=2, per_host=2).step(tensors)
    raw = 4 * 16 * MIB
    assert sum(rank.local_bytes for rank in step.ranks) < raw / 8


def test_on_one_host_hierarchical_compresses_nothing():
    slow = [codec(seconds_per_byte=1.0)]
    step = Cluster(hosts=1, per_host=4).step([tensor(topology="hierarchical", codec=0)], slow)
    assert step.step_s < 1


def test_sums_take_one_pass_over_all_operands():
    elements = 4 * MIB
    one = costs(1e-9)
    # Each owner adds four contributions with five passes over memory; two contributions need three passes.
    step = Cluster(4, sums=one, threads=1).step([tensor(elements=elements, partitions=4)])
    assert step.ranks[0].computing_s == pytest.approx(elements * 1e-9 * 5 / 3)


def test_one_rank_alone_only_encodes_and_decodes():
    step = Cluster(1).step([tensor(codec=0)])
    assert step.ranks[0].messages == 0


def test_the_same_question_has_the_same_answer():
    tensors = [tensor(f"t{index}", 1000 * (index + 1), codec=index % 2 - 1) for index in range(40)]
    answers = [Cluster(4, per_message_s=1e-6, latency_s=1e-5).step(tensors) for _ in range(2)]
    assert answers[0].step_s == answers[1].step_s
    assert answers[0].events == answers[1].events


def test_an_empty_tensor_and_an_empty_step_take_no_time_worth_mentioning():
    assert Cluster(3).step([]).step_s == 0
    assert Cluster(3).step([tensor(elements=0)]).step_s < 1e-5


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (tensor(codec=1), "the costs of its codec are missing"),
        (tensor(topology="star"), "there is no topology 'star'"),
        (tensor(partitions=5000), "partitions must be in"),
        (tensor(times=0.0), "its messages take no time"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong, said):
    with pytest.raises(InvalidArgument, match=said):
        Cluster(2).step([wrong])


def test_a_rank_on_no_host_is_refused():
    with pytest.raises(InvalidArgument, match="not described"):
        _core.simulate_step(
            _core.SimulatedCluster(
                hosts=[0, 3],
                machines=[0],
                cores=[1],
                network=_core.SimulatedLink(bytes_per_s=1),
                shared_memory=_core.SimulatedLink(bytes_per_s=1),
            ),
            _core.EngineCosts(),
            [],
            [tensor()],
        )


def test_members_of_a_group_are_copied_together_and_back():
    slow = Cluster(1, sums=costs(1 / MIB))
    alone, together = (slow.step([tensor(elements=MIB // 4, members=members)]).step_s for members in (1, 3))
    # Each copy costs as much as an addition, because the cache reads memory that is about to be overwritten.
    assert together - alone == pytest.approx(2, rel=0.01)
