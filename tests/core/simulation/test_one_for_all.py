# SPDX-License-Identifier: Apache-2.0
"""Simulating one rank for all ranks gives the result of simulating all ranks, for models' gradients and 16 to 64
ranks."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path

import pytest

from hipress import _core
from hipress.errors import Unsupported
from tests.core.simulation.clusters import Cluster, codec, costs, tensor

MODELS = Path(__file__).parents[3] / "benchmarks" / "models"
#: The allowed difference. A tensor's name decides which rank owns a small tensor, so some ranks do more work.
#: The one simulated rank does the work of the busiest rank.
WITHIN = 0.15


def model(name: str, topology: str, codec_index: int = -1) -> list[tuple]:
    content = json.loads((MODELS / f"{name}.json").read_text())
    return [
        tensor(gradient, math.prod(shape), topology=topology, codec=codec_index, priority=-index, release=ready / 10)
        for index, (gradient, shape, ready) in enumerate(content["tensors"])
    ]


def cluster(hosts: int, per_host: int = 1) -> Cluster:
    """At 1e9 bytes per second, raw tensors are limited by the links, and compressed tensors by the processors."""
    return Cluster(
        hosts,
        per_host,
        cores=2 * per_host,
        latency_s=2e-5,
        per_message_s=4e-6,
        cpu_per_byte_s=1e-10,
        sums=costs(1e-10),
        submission_s=5e-6,
    )


CODEC = [codec(1 / 32, 1e-10)]


@pytest.mark.parametrize("topology", ["ps", "ring"])
@pytest.mark.parametrize("codec_index", [-1, 0])
@pytest.mark.parametrize("name", ["resnet50", "bert-base", "vgg19"])
@pytest.mark.parametrize("ranks", [16, 32])
def test_flat(name, ranks, topology, codec_index):
    tensors = model(name, topology, codec_index)
    exact = cluster(ranks).step(tensors, CODEC)
    fast = cluster(ranks).step(tensors, CODEC, symmetric=True)
    assert fast.step_s == pytest.approx(exact.step_s, rel=WITHIN)
    sent = [rank.sent_bytes for rank in exact.ranks]
    assert min(sent) <= fast.ranks[0].sent_bytes <= 1.01 * max(sent)
    assert fast.events < exact.events / 2


@pytest.mark.parametrize("topology", ["hierarchical", "hierarchical(ring)", "hierarchical(allgather)", "ps"])
def test_several_ranks_per_host(topology):
    tensors = model("resnet50", topology, 0)
    exact = cluster(8, 4).step(tensors, CODEC)
    fast = cluster(8, 4).step(tensors, CODEC, symmetric=True)
    assert fast.step_s == pytest.approx(exact.step_s, rel=WITHIN)


def test_64_ranks():
    tensors = model("resnet50", "ps", 0)
    exact = cluster(64).step(tensors, CODEC)
    fast = cluster(64).step(tensors, CODEC, symmetric=True)
    assert fast.step_s == pytest.approx(exact.step_s, rel=WITHIN)


def test_allgather_is_the_same_for_all():
    tensors = model("resnet50", "allgather", 0)
    exact = cluster(16).step(tensors, CODEC)
    fast = cluster(16).step(tensors, CODEC, symmetric=True)
    assert fast.step_s == pytest.approx(exact.step_s, rel=0.001)
    assert fast.ranks[0].sent_bytes == pytest.approx(exact.ranks[0].sent_bytes)


@pytest.mark.parametrize("partitions", [1, 4, 16, 24, 64])
def test_a_tensor_whose_partitions_do_not_go_round_burdens_who_has_more(partitions):
    tensors = [tensor("large", 1 << 24, partitions=partitions)]
    exact = cluster(16).step(tensors)
    fast = cluster(16).step(tensors, symmetric=True)
    assert fast.step_s == pytest.approx(exact.step_s, rel=0.2)
    assert fast.ranks[0].sent_bytes == pytest.approx(max(rank.sent_bytes for rank in exact.ranks), rel=0.01)


def test_ranks_that_share_a_machine():
    tensors = model("resnet50", "ps", 0)
    shared = cluster(16)
    shared.machines = [host // 4 for host in range(16)]
    exact = shared.step(tensors, CODEC)
    fast = shared.step(tensors, CODEC, symmetric=True)
    assert fast.step_s == pytest.approx(exact.step_s, rel=WITHIN)


@pytest.mark.parametrize(
    ("unequal", "topology"),
    [
        (Cluster(4, 2), "ring"),  # only one of a host's two ranks sends to another host
        (Cluster(3, machines=[0, 0, 1]), "ps"),
        (Cluster(3, unlike=[(0, 1, 1e6)]), "ps"),
    ],
)
def test_where_ranks_do_not_do_the_same_none_stands_for_all(unequal, topology):
    with pytest.raises(Unsupported, match="one rank cannot stand for all"):
        unequal.step([tensor(topology=topology)], symmetric=True)


def test_hosts_with_unequally_many_ranks():
    link = _core.SimulatedLink(bytes_per_s=1e9)
    uneven = _core.SimulatedCluster(hosts=[0, 0, 1], machines=[0, 1], cores=[1, 1], network=link, shared_memory=link)
    with pytest.raises(Unsupported, match="hosts differ"):
        _core.simulate_step(uneven, _core.EngineCosts(), [], [tensor()], symmetric=True)


@pytest.mark.parametrize("topology", ["ps", "ring", "allgather"])
def test_1024_ranks_take_less_than_a_minute(topology):
    started = time.process_time()
    step = cluster(1024).step(model("bert-base", topology, 0), CODEC, symmetric=True)
    assert time.process_time() - started < 60
    assert step.step_s > 0
