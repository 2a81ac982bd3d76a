# SPDX-License-Identifier: Apache-2.0
"""Allgather and all-to-all over both control planes: the order of values, deadlines, missing and late ranks."""

from __future__ import annotations

import time

import pytest

from hipress.errors import InvalidArgument, Timeout
from tests.core.control.control_ranks import World, make_world

pytestmark = pytest.mark.timeout(60)


def test_allgather_returns_values_by_rank_and_keys_can_be_reused(world: World) -> None:
    for repetition in range(20):
        values = [b"\x00" * repetition + b"%d" % rank for rank in range(4)]
        calls = [world.start(rank, "allgather", "key", values[rank], 10.0) for rank in (2, 0, 3, 1)]
        assert all(call.result() == values for call in calls)


def test_allgathers_under_different_keys_do_not_mix(world: World) -> None:
    first = world.gather("a", range(4))
    second = world.gather("b", [3, 2, 1, 0])
    for call in [*first.values(), *second.values()]:
        assert call.result() == [b"from %d" % rank for rank in range(4)]


def test_large_and_empty_values(world: World) -> None:
    values = [b"", b"x" * (8 << 20), b"\xff" * 100_001, b""]
    calls = [world.start(rank, "allgather", "", values[rank], 30.0) for rank in range(4)]
    assert all(call.result() == values for call in calls)


def test_world_of_one(kind: str) -> None:
    with make_world(kind, 1) as world:
        plane = world.planes[0]
        assert (plane.rank, plane.world_size) == (0, 1)
        assert plane.allgather("k", b"v", 5.0) == [b"v"]
        assert plane.declare("x", "float32[1]", timeout=5.0) == 1
        start = time.monotonic()
        plane.leave(30.0)
        assert time.monotonic() - start < 10


def test_missing_rank_is_named_when_the_deadline_passes(world: World) -> None:
    start = time.monotonic()
    calls = world.gather("start", [0, 1, 2], timeout=0.5)
    for call in calls.values():
        with pytest.raises(Timeout, match=r"rank 3 has not arrived at 'start' within 0\.5 s; 3 of 4 ranks are here"):
            call.result()
    assert 0.4 < time.monotonic() - start < 5


def test_several_missing_ranks_are_named(world: World) -> None:
    with pytest.raises(Timeout, match=r"ranks 1, 2 and 3 have not arrived at 'k' within 0\.1 s; 1 of 4 ranks is here"):
        world.planes[0].allgather("k", b"", 0.1)


def test_zero_timeout_fails_at_once(world: World) -> None:
    with pytest.raises(Timeout):
        world.planes[1].allgather("k", b"", 0.0)


def test_late_rank_hears_of_the_timeout_at_once_and_the_key_works_again(world: World) -> None:
    for call in world.gather("k", [0, 1, 2], timeout=0.3).values():
        assert isinstance(call.exception(), Timeout)
    retries = world.gather("k", [0, 1])  # the late rank must not join these calls
    start = time.monotonic()
    with pytest.raises(Timeout, match="rank 3 has not arrived"):
        world.planes[3].allgather("k", b"late", 30.0)
    assert time.monotonic() - start < 5
    retries |= world.gather("k", [2, 3])
    for call in retries.values():
        assert call.result() == [b"from %d" % rank for rank in range(4)]


def test_shortest_deadline_ends_the_wait_for_all(world: World) -> None:
    patient = world.gather("k", [0, 1], timeout=30.0)
    with pytest.raises(Timeout):
        world.planes[2].allgather("k", b"", 0.2)
    for call in patient.values():
        with pytest.raises(Timeout, match="rank 3"):
            call.result(timeout=10)


def test_too_large_a_value_is_refused_here(world: World) -> None:
    with pytest.raises(InvalidArgument, match="67108865 bytes"):
        world.planes[0].allgather("k", bytes((64 << 20) + 1), 1.0)


def test_an_alltoall_gives_each_rank_its_own_values(world: World) -> None:
    for repetition in range(20):
        values = [[b"%d to %d" % (rank, to) + b"\xff" * repetition for to in range(4)] for rank in range(4)]
        calls = [world.start(rank, "alltoall", "key", values[rank], 10.0) for rank in (2, 0, 3, 1)]
        for call, rank in zip(calls, (2, 0, 3, 1), strict=True):
            assert call.result() == [values[other][rank] for other in range(4)]


def test_values_of_an_alltoall_may_be_empty_and_large(world: World) -> None:
    values = [[b""] * 4, [b"x" * (8 << 20), b"", b"", b"y"], [b"\0" * 5] * 4, [b"", b"", b"", b"z" * 70_000]]
    calls = [world.start(rank, "alltoall", "", values[rank], 30.0) for rank in range(4)]
    for rank, call in enumerate(calls):
        assert call.result() == [values[other][rank] for other in range(4)]


def test_an_alltoall_needs_a_value_for_each_rank(world: World) -> None:
    with pytest.raises(InvalidArgument, match="an all-to-all among 4 ranks has 3 values"):
        world.planes[0].alltoall("k", [b""] * 3, 1.0)
    with pytest.raises(InvalidArgument, match="all values together"):
        world.planes[0].alltoall("k", [bytes(17 << 20)] * 4, 1.0)
    with pytest.raises(Timeout, match=r"ranks? 1, 2 and 3 have not arrived at 'k'|not arrived at 'k'"):
        world.planes[0].alltoall("k", [b""] * 4, 0.1)
