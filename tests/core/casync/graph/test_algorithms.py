# SPDX-License-Identifier: Apache-2.0
"""The formulas of docs/algorithms.md equal the counts in the built task graphs and in the sent messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

from hipress import _core
from tests.cases import each
from tests.core.casync.engine_world import gradients, run_ranks, spec

#: Bytes of a message's header.
HEADER = 32
Graphs = list[list[dict[str, Any]]]
Formula = Callable[["Size"], Fraction]


@dataclass(frozen=True)
class Size:
    """The parameters of the formulas: K partitions, N ranks on H hosts, L ranks on each host."""

    K: int
    H: int
    L: int

    @property
    def N(self) -> int:  # noqa: N802 -- as on the page
        return self.H * self.L

    @property
    def hosts(self) -> list[int]:
        return [rank // self.L for rank in range(self.N)]


def share(numerator: int, denominator: int) -> Fraction:
    return Fraction(numerator, denominator)


def leaves(world: int) -> int:
    """The leaves of a butterfly's tree: half of the places, if their number is a power of two."""
    return sum(place + 2 * (1 << place.bit_length() - 1) >= world for place in range(1, world))


@dataclass(frozen=True)
class Cost:
    """The costs per rank. Messages to other hosts and encoded messages within a host carry S/K bytes; raw ones carry
    R/K."""

    hops: Formula
    outside: Formula  # messages to other hosts (flat topologies: to all other ranks)
    encodes: Formula
    decodes: Formula
    inside_encoded: Formula = lambda _: Fraction(0)
    inside_plain: Formula = lambda _: Fraction(0)
    own: Formula = lambda _: Fraction(0)  # of the messages to other hosts, those with the sender's own values


COSTS = {
    "ps": Cost(
        hops=lambda s: share(2, 1),
        outside=lambda s: share(2 * s.K * (s.N - 1), s.N),
        encodes=lambda s: share(s.K, 1),
        decodes=lambda s: share(s.K * (2 * s.N - 1), s.N),
        own=lambda s: share(s.K * (s.N - 1), s.N),
    ),
    "ring": Cost(
        hops=lambda s: share(2 * (s.N - 1), 1),
        outside=lambda s: share(2 * s.K * (s.N - 1), s.N),
        encodes=lambda s: share(s.K, 1),
        decodes=lambda s: share(s.K * (2 * s.N - 1), s.N),
        own=lambda s: share(s.K, s.N),
    ),
    "butterfly": Cost(
        hops=lambda s: share(2 * (s.N.bit_length() - 1), 1),
        outside=lambda s: share(2 * s.K * (s.N - 1), s.N),
        encodes=lambda s: share(s.K, 1),
        decodes=lambda s: share(s.K * (2 * s.N - 1), s.N),
        own=lambda s: share(s.K * leaves(s.N), s.N),
    ),
    "allgather": Cost(
        hops=lambda s: share(1, 1),
        outside=lambda s: share(s.K * (s.N - 1), 1),
        encodes=lambda s: share(s.K, 1),
        decodes=lambda s: share(s.K * s.N, 1),
        own=lambda s: share(s.K * (s.N - 1), 1),
    ),
    "hierarchical": Cost(
        hops=lambda s: share(4, 1),
        outside=lambda s: share(2 * s.K * (s.H - 1), s.N),
        encodes=lambda s: share(s.K, s.L),
        decodes=lambda s: share(s.K * (2 * s.H - 1), s.N) + share(s.K * (s.L - 1), s.L),
        inside_encoded=lambda s: share(s.K * (s.L - 1), s.L),
        inside_plain=lambda s: share(s.K * (s.L - 1), s.L),
    ),
    "hierarchical(ring)": Cost(
        hops=lambda s: share(2 * s.H, 1),
        outside=lambda s: share(2 * s.K * (s.H - 1), s.N),
        encodes=lambda s: share(s.K, s.L),
        decodes=lambda s: share(s.K * (2 * s.H - 1), s.N) + share(s.K * (s.L - 1), s.L),
        inside_encoded=lambda s: share(s.K * (s.L - 1), s.L),
        inside_plain=lambda s: share(s.K * (s.L - 1), s.L),
    ),
    "hierarchical(allgather)": Cost(
        hops=lambda s: share(3, 1),
        outside=lambda s: share(s.K * (s.H - 1), s.L),
        encodes=lambda s: share(s.K, s.L),
        decodes=lambda s: share(s.K * s.H, s.L),
        inside_plain=lambda s: share(2 * s.K * (s.L - 1), s.L),
    ),
}
FLAT = [Size(K=K, H=N, L=1) for N in (2, 3, 4, 5, 8) for K in (N, 3 * N)]
HOSTS = [Size(K=K * H * L, H=H, L=L) for H, L in ((2, 2), (2, 4), (3, 2), (4, 2)) for K in (1, 2)]
CASES = [(name, size) for name in COSTS for size in (HOSTS if name.startswith("hier") else FLAT)]


def graphs(topology: str, size: Size) -> Graphs:
    return [_core.build_topology(topology, rank, size.N, size.K, 1, size.hosts) for rank in range(size.N)]


def longest_path(every_rank: Graphs) -> int:
    """The number of messages in the longest chain of messages that depend on each other."""
    receives = {
        (rank, task["peer"], task["partition"], task["hop"]): (rank, index)
        for rank, tasks in enumerate(every_rank)
        for index, task in enumerate(tasks)
        if task["primitive"] == "recv"
    }

    @cache
    def behind(rank: int, index: int) -> int:
        task = every_rank[rank][index]
        after = [behind(rank, successor) for successor in task["successors"]]
        if task["primitive"] == "send":
            after.append(1 + behind(*receives[task["peer"], rank, task["partition"], task["hop"]]))
        return max(after, default=0)

    return max(behind(rank, index) for rank, tasks in enumerate(every_rank) for index in range(len(tasks)))


@pytest.mark.parametrize(("topology", "size"), CASES, ids=str)
def test_what_the_graphs_count(topology: str, size: Size) -> None:
    every_rank = graphs(topology, size)
    cost = COSTS[topology]
    counted = dict.fromkeys(("outside", "own", "inside_encoded", "inside_plain", "encodes", "decodes"), 0)
    for rank, tasks in enumerate(every_rank):
        for task in tasks:
            if task["primitive"] == "send":
                outside = size.L == 1 or size.hosts[rank] != size.hosts[task["peer"]]
                inside = "inside_plain" if task["plain"] else "inside_encoded"
                counted["outside" if outside else inside] += 1
                counted["own"] += outside and task["own"]
            elif task["primitive"] == "encode":
                counted["encodes"] += not task["plain"]
            elif task["primitive"] == "decode":
                counted["decodes"] += not task["plain"]
            elif task["primitive"] == "merge":
                counted["decodes"] += task["merged_messages"]
    for name, total in counted.items():
        assert total == size.N * getattr(cost, name)(size), name
    assert longest_path(every_rank) == cost.hops(size)


def transfers(every_rank: Graphs, primitive: str) -> list[tuple[int, int, int, int]]:
    """The sender, receiver, partition and hop of all ranks' sends or receives, sorted."""
    return sorted(
        (*((rank, task["peer"]) if primitive == "send" else (task["peer"], rank)), task["partition"], task["hop"])
        for rank, tasks in enumerate(every_rank)
        for task in tasks
        if task["primitive"] == primitive
    )


def levels(every_rank: Graphs, primitive: str) -> list[int]:
    """In the order of transfers(): how many messages in a row come before each."""
    found = sorted(
        (
            *((rank, task["peer"]) if primitive == "send" else (task["peer"], rank)),
            task["partition"],
            task["hop"],
            level,
        )
        for rank, tasks in enumerate(every_rank)
        for task in tasks
        if task["primitive"] == primitive
        for level in [task["level"] - (primitive == "recv")]
    )
    return [each[-1] for each in found]


def is_matched(every_rank: Graphs) -> bool:
    """Whether every send has its receive, which knows the send's level, and all messages have different tags."""
    sent = transfers(every_rank, "send")
    matched = sent == transfers(every_rank, "recv") and len(set(sent)) == len(sent)
    return matched and levels(every_rank, "send") == levels(every_rank, "recv")


@pytest.mark.parametrize(("topology", "size"), CASES, ids=str)
def test_every_send_has_its_receive(topology: str, size: Size) -> None:
    assert is_matched(graphs(topology, size))


@pytest.mark.parametrize(("topology", "size"), [case for case in CASES if case[1].N <= 4], ids=str)
@each("codec", ["none", "fp16"])
def test_what_is_sent(topology: str, size: Size, codec: str) -> None:
    """The bytes include a header of 32 bytes per message; fp16 halves the payloads, except raw ones within a host."""
    count = 4096 * size.K
    values = gradients(size.N, count)

    def body(engine: _core.Engine) -> dict[str, int]:
        (tensor,) = engine.declare(
            [spec("w", values[0], codec=codec, topology=topology, partitions=size.K)],
        )
        before = engine.counters()
        result = values[engine.rank].copy()
        engine.wait(engine.submit(tensor, result, result))
        return {name: count - before[name] for name, count in engine.counters().items()}

    counters = run_ranks(size.N, body, options={"hosts": size.hosts}, read_neighbours=False)
    cost = COSTS[topology]
    encoded = cost.outside(size) + cost.inside_encoded(size)
    plain = cost.inside_plain(size)
    element = 2 if codec == "fp16" else 4
    bytes_each = encoded * (4096 * element + 32) + plain * (4096 * 4 + 32)
    assert sum(counter["bytes_sent"] for counter in counters) == size.N * bytes_each
    assert sum(counter["messages_sent"] for counter in counters) == size.N * (encoded + plain)


@pytest.mark.parametrize(("topology", "size"), [case for case in CASES if case[1].N <= 5], ids=str)
@each("extra", [0, 1])
def test_own_values_of_four_bits_halve_their_messages(topology: str, size: Size, extra: int) -> None:
    """One element more is the first of another byte."""
    count = 4096 * size.K - 1 + extra
    values = np.arange(count, dtype=np.int8) % 7

    def body(engine: _core.Engine) -> int:
        described = spec("w", values, op="sum", topology=topology, partitions=size.K, greatest=6)
        (tensor,) = engine.declare([described])
        result = values.copy()
        engine.wait(engine.submit(tensor, result, result))
        engine.allgather("all have sent", b"")
        assert (result == size.N * values).all()
        return engine.counters()["bytes_sent"]

    sent = sum(run_ranks(size.N, body, options={"hosts": size.hosts}, read_neighbours=False))
    cost = COSTS[topology]
    partition = Fraction(count, size.K)
    all_messages = cost.outside(size) + cost.inside_encoded(size) + cost.inside_plain(size)
    packed = cost.own(size)
    expected = size.N * (all_messages * (partition + HEADER) - packed * partition)
    assert sent == expected + size.N * packed * Fraction((count + 1) // 2, size.K)


#: For the collectives other than all-reduce: the hops, the messages and the bytes of all N ranks together. Each rank
#: has N blocks of 4096 bytes, which are one partition for a broadcast.
COLLECTIVES: dict[str, tuple[Callable[[int], int], Callable[[int], int], Callable[[int], int]]] = {
    "broadcast": (lambda n: 3 * (n.bit_length() - 1), lambda n: 3 * (n - 1), lambda n: 4096 * n * (n - 1)),
    "allgather": (lambda n: 2, lambda n: 2 * n * (n - 1), lambda n: n * (n - 1) * (4096 * n + 8)),
    "alltoall": (lambda n: 2, lambda n: 2 * n * (n - 1), lambda n: n * (n - 1) * (4096 + 8)),
    "reducescatter": (lambda n: 1, lambda n: n * (n - 1), lambda n: n * (n - 1) * 4096),
    "barrier": (lambda n: 1, lambda n: n * (n - 1), lambda n: 0),
}


def run_collective(engine: _core.Engine, collective: str) -> None:
    world = engine.world_size
    values = np.zeros((world, 1024), np.float32)
    if collective in ("allgather", "alltoall"):
        described = _core.TensorSpec("x", collective=collective, count=0, shape="[*, 1024]", transient=True)
        rows = [world] if collective == "allgather" else [1] * world
        _core.move_blocks(engine, described, values, 1024, rows).wait()
        return
    given, result, options = values, values.copy(), {"collective": collective}
    if collective == "barrier":
        given = result = values[:0]
        options = {"collective": "allgather", "received": [0] * world}
    elif collective == "reducescatter":
        result, options = values[:1].copy(), {"collective": collective, "rows": world}
    (tensor,) = engine.declare([spec("x", given, **options)])
    engine.wait(engine.submit(tensor, given, result))


@pytest.mark.parametrize("collective", list(COLLECTIVES))
@each("world_size", [1, 2, 3, 4, 8])
def test_what_other_collectives_send(collective: str, world_size: int) -> None:
    def body(engine: _core.Engine) -> dict[str, int]:
        run_collective(engine, collective)
        engine.allgather("all are done", b"")
        return engine.counters()

    _, messages, payload = COLLECTIVES[collective]
    counters = run_ranks(world_size, body)
    assert sum(counter["messages_sent"] for counter in counters) == messages(world_size)
    assert sum(counter["bytes_sent"] for counter in counters) == payload(world_size) + 32 * messages(world_size)


@pytest.mark.parametrize("collective", ["broadcast", "allgather", "alltoall", "reducescatter"])
@each("world_size", [2, 3, 4, 5, 8])
def test_graphs_of_other_collectives(collective: str, world_size: int) -> None:
    """Allgather and alltoall run their task graph twice: first for the sizes, then for the blocks."""
    every_rank = [_core.build_collective(collective, rank, world_size) for rank in range(world_size)]
    times = 2 if collective in ("allgather", "alltoall") else 1
    hops, messages, _ = COLLECTIVES[collective]
    assert times * longest_path(every_rank) == hops(world_size)
    assert times * len(transfers(every_rank, "send")) == messages(world_size)
    assert is_matched(every_rank)


@pytest.mark.parametrize("topology", list(COSTS))
@each("partitions", [1, 3, 4, 9])
def test_shares_are_even(topology: str, partitions: int) -> None:
    """No rank aggregates more than ⌈K/N⌉ partitions."""
    size = Size(K=partitions, H=4, L=1)
    for tasks in graphs(topology, size):
        merged = {task["partition"] for task in tasks if task["primitive"] == "merge" and task["merged_messages"] == 3}
        assert len(merged) <= -(-partitions // 4)


def test_sums_of_nothing_are_not_an_error() -> None:
    for topology in COSTS:
        (tasks,) = (_core.build_topology(topology, 0, 1, 1),)
        assert all(task["primitive"] not in ("send", "recv") for task in tasks)
        assert np.all([task["successors"] == [] or max(task["successors"]) < len(tasks) for task in tasks])


@each(("world_size", "expected"), [(1, 4096), (4096, 4096), (4097, 4096), (10_000, 4096), (3000, 3000)])
def test_a_huge_tensor_is_cut_into_as_many_partitions_as_there_can_be(world_size: int, expected: int) -> None:
    assert _core.default_partitions(1 << 40, 4, world_size) == expected


def test_more_ranks_than_partitions_share_a_tensor_as_far_as_they_can() -> None:
    assert _core.default_partitions(1 << 28, 4, 10_000) == 4096


@each("partitions", [0, 1, 2, 3, 100])
@each("elements", [0, 1, 1023, 1024, 1025, 7 * 1024 + 5])
def test_partitions_cover_a_tensor_once_and_start_on_multiples_of_1024(elements: int, partitions: int) -> None:
    ranges = _core.split_elements(elements, partitions)
    assert [first for first, _ in ranges] == [0, *(first + count for first, count in ranges)][:-1]
    assert sum(count for _, count in ranges) == elements
    assert len(ranges) == max(1, min(partitions, -(-elements // 1024)))
    assert all(first % 1024 == 0 for first, _ in ranges)
    counts = [count for _, count in ranges]
    assert max(counts) - min(counts[:-1] or counts) <= 1024
