# SPDX-License-Identifier: Apache-2.0
"""Tensors that the end of another tensor releases, and computations for whole tensors before and behind them, as two
linked tensors have them: the times equal sums of parts."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from hipress import _core
from hipress.errors import InvalidArgument
from tests.core.simulation.clusters import RATE, Cluster, costs, tensor

MIB = 1 << 20
#: Seconds of the computations for a tensor of 4 MiB, all different.
FIRST_S, SECOND_S, RESULT_S = 0.004, 0.008, 0.002
SIZE = 4.0 * MIB
COMPUTATIONS = [costs(seconds / SIZE) for seconds in (FIRST_S, SECOND_S, RESULT_S)]
HEADER = 32


def linked(name: str = "t", number: int = 0, elements: int = MIB, small: int = 4096, **other: Any) -> list[Any]:
    """The two tensors for one of `elements` float32. `number`: the index of the first."""
    size = 4.0 * elements
    return [
        tensor(f"{name} (statistics)", small, before=(0, size), **other),
        tensor(f"{name} (levels)", elements, bytes=1, after=number, before=(1, size), behind=(2, size), **other),
    ]


def ps_s(size: int) -> float:
    """Two ranks, one partition: there and back."""
    return 2 * (size + HEADER) / RATE


def test_without_contention_a_step_takes_the_sum_of_its_parts() -> None:
    step = Cluster(2, submission_s=1e-4).step(linked(partitions=1, release=0.5), computations=COMPUTATIONS)
    submissions_s = 3 * 1e-4  # the tensor, and both linked tensors
    parts_s = submissions_s + FIRST_S + ps_s(4 * 4096) + SECOND_S + ps_s(MIB) + RESULT_S
    assert step.step_s == pytest.approx(0.5 + parts_s, rel=0.01)
    assert step.backward_s == pytest.approx(0.5 + 1e-4)
    first, second = step.gradients
    assert first.start_s == pytest.approx(0.5 + 1e-4)
    assert first.end_s == second.start_s == pytest.approx(0.5001 + FIRST_S + 1e-4 + ps_s(4 * 4096), rel=0.01)
    assert second.end_s == step.step_s
    assert step.ranks[0].computing_s == pytest.approx(FIRST_S + SECOND_S + RESULT_S)
    assert step.ranks[0].sent_bytes == pytest.approx(4 * 4096 + MIB + 2 * HEADER)


def test_a_small_tensor_is_computed_by_the_thread_that_has_it() -> None:
    small = linked(elements=1024, small=16, partitions=1)
    # With one compute thread, which is busy with the large tensor, the small one does not wait.
    busy = [costs(1.0 / SIZE)] * 3
    step = Cluster(2, threads=1).step([*linked("large", partitions=1), *_later(small, 2)], computations=busy)
    assert step.gradients[3].end_s < 0.01 < 1.0 < step.gradients[1].end_s


def _later(tensors: list[Any], number: int) -> list[Any]:
    """The tensors with other indices."""
    return [(*one[:10], one[10] + number if one[10] >= 0 else -1, *one[11:]) for one in tensors]


def test_computations_go_by_priority_on_the_compute_threads() -> None:
    tensors: list[Any] = []
    for index in range(8):
        tensors += linked(f"t{index}", len(tensors), partitions=2, priority=-index)
    step = Cluster(2, threads=1, cores=4).step(tensors, computations=COMPUTATIONS)
    ends = [one.end_s for one in step.gradients[1::2]]
    # Backward releases the last layer first, and its computation has begun before the first one is there.
    assert ends[:7] == sorted(ends[:7])
    assert step.ranks[0].computing_s == pytest.approx(8 * (FIRST_S + SECOND_S + RESULT_S))
    assert step.step_s >= step.ranks[0].computing_s


def test_idle_threads_help_with_a_computation() -> None:
    both = _core.ComputeCosts([[(0, 0), (1e9, 10)], [(0, 0), (1e9, 5)]])
    steps = [Cluster(2, threads=count).step(linked(), computations=[both] * 3).step_s for count in (1, 2)]
    assert steps[1] == pytest.approx(steps[0] / 2, rel=0.1)


@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_every_rank_computes_everything(ranks: int) -> None:
    for rank in Cluster(ranks).step(linked(), computations=COMPUTATIONS).ranks:
        assert rank.computing_s == pytest.approx(FIRST_S + SECOND_S + RESULT_S)


def test_several_tensors_may_follow_one() -> None:
    step = Cluster(2).step(
        [tensor("a", 1024, behind=(2, SIZE)), *(tensor(name, 1024, after=0) for name in "bc")],
        computations=COMPUTATIONS,
    )
    assert step.gradients[0].end_s > RESULT_S
    assert [one.start_s for one in step.gradients[1:]] == [step.gradients[0].end_s] * 2


@pytest.mark.parametrize("topology", ["ps", "ring", "allgather"])
def test_one_rank_for_all_gives_the_same_step(topology: str) -> None:
    content = json.loads((Path(__file__).parents[3] / "benchmarks" / "models" / "resnet50.json").read_text())
    tensors: list[Any] = []
    for index, (name, shape, ready_s) in enumerate(content["tensors"]):
        elements = 1
        for size in shape:
            elements *= size
        options = {"topology": topology, "priority": -index, "release": ready_s / 10}
        if elements < 1024:
            tensors.append(tensor(name, elements, **options))
        else:
            tensors += linked(name, len(tensors), elements, -(-elements // 256), **options)
    cluster = Cluster(16, cores=2, latency_s=2e-5, per_message_s=4e-6, cpu_per_byte_s=1e-10, submission_s=5e-6)
    exact, fast = (
        cluster.step(tensors, computations=[costs(2e-10)] * 3, symmetric=symmetric) for symmetric in (False, True)
    )
    assert fast.step_s == pytest.approx(exact.step_s, rel=0.15)
    assert fast.ranks[0].computing_s == pytest.approx(exact.ranks[0].computing_s, rel=0.15)
    assert fast.events < exact.events


@pytest.mark.parametrize(
    ("topology", "own", "sums"), [("ps", 3, 3), ("ring", 1, 5), ("butterfly", 2, 4), ("allgather", 12, 0)]
)
def test_own_values_of_four_bits_have_half_the_bytes(topology: str, own: int, sums: int) -> None:
    """`own`, `sums`: the messages of one partition of four ranks, of which the tensor has four."""
    count = 4 * 1024 * 1024 - 1
    # In a butterfly the ranks do not do the same, so no rank stands for all.
    for packs, symmetric in product((False, True), (False,) if topology == "butterfly" else (False, True)):
        each = tensor("t", count, bytes=1, topology=topology, partitions=4, packs=packs)
        step = Cluster(4).step([each], symmetric=symmetric)
        sent = sum(rank.sent_bytes for rank in step.ranks) * (4 if symmetric else 1)
        of_own = (count + 1) // 2 if packs else count
        assert sent == pytest.approx(own * of_own + sums * count + 4 * (own + sums) * HEADER)


def test_packing_takes_half_the_time_of_a_sum() -> None:
    sums = costs(1e-9)
    plain, packed = (
        Cluster(2, sums=sums).step([tensor("t", MIB, bytes=1, partitions=1, packs=packs)]) for packs in (False, True)
    )
    busier = [more.computing_s - less.computing_s for less, more in zip(plain.ranks, packed.ranks, strict=True)]
    assert sorted(busier) == pytest.approx([0, MIB * 1e-9 / 2])
    # Half the push is less than the time for packing at this rate of the links.
    assert packed.step_s == pytest.approx(plain.step_s - MIB / 2 / RATE + MIB * 1e-9 / 2, rel=0.01)


def test_the_same_question_has_the_same_answer() -> None:
    tensors: list[Any] = []
    for index in range(20):
        tensors += linked(f"t{index}", len(tensors), 1000 * (index + 1), index + 1)
    answers = [Cluster(4, per_message_s=1e-6).step(tensors, computations=COMPUTATIONS) for _ in range(2)]
    assert answers[0].step_s == answers[1].step_s
    assert answers[0].events == answers[1].events


def test_what_makes_no_sense_is_refused() -> None:
    for wrong, said in (
        (tensor("t", after=0), "the gradient that releases it must be described before it"),
        (tensor("t", before=(3, 1.0)), "the costs of its computation are missing"),
        (tensor("t", behind=(3, 1.0)), "the costs of its computation are missing"),
    ):
        with pytest.raises(InvalidArgument, match=said):
            Cluster(2).step([wrong], computations=COMPUTATIONS)
    votes = _core.SimulatedCodec(*_times(), [(0, 0), (1e9, 1e9 / 32)], merges_decoded=True)
    with pytest.raises(InvalidArgument, match="merges every contribution as decoded, and topology ring sends sums"):
        Cluster(2).step([tensor("t", codec=0, topology="ring")], [votes])


@pytest.mark.parametrize("symmetric", [False, True])
def test_an_aggregator_that_merges_decoded_values_encodes_and_decodes_its_own(symmetric: bool) -> None:
    ranks, partitions = 4, 8
    size = 4 * MIB / partitions
    every = [(0, 0), (1e9, 1e9 / 32)]
    plain, votes = (_core.SimulatedCodec(*_times(), every, merges_decoded=own) for own in (False, True))
    asked = [tensor(elements=MIB, partitions=partitions, codec=0)]
    both = [Cluster(ranks, threads=1).step(asked, [one], symmetric=symmetric) for one in (plain, votes)]
    # K/N more encodes and K/N more decodes, and no more bytes. Sums cost nothing here.
    more_s = both[1].ranks[0].computing_s - both[0].ranks[0].computing_s
    assert more_s == pytest.approx(partitions / ranks * size * (1e-9 + 2e-9), rel=1e-6)
    assert both[1].ranks[0].sent_bytes == both[0].ranks[0].sent_bytes
    assert both[1].ranks[0].messages == both[0].ranks[0].messages


def _times() -> list[_core.ComputeCosts]:
    """Encoding, decoding and merging."""
    return [costs(1e-9), costs(2e-9), costs(4e-9)]
