# SPDX-License-Identifier: Apache-2.0
"""If a rank is lost, leaves, fails or closes, the other ranks get the right notice over both control planes."""

from __future__ import annotations

import socket
import time

import pytest

from hipress.errors import InvalidArgument, NotInitialized, PeerLost
from tests.core.control.control_ranks import World, heard, make_world, port_of, wait_until

pytestmark = pytest.mark.timeout(60)


def test_lost_rank_fails_who_waits_for_it_now_and_later(world: World) -> None:
    calls = world.gather("k", [0, 1])
    time.sleep(0.1)
    world.planes[3].close()
    calls |= world.gather("k", [2])
    for call in calls.values():
        with pytest.raises(PeerLost, match=r"rank 3 .*was lost"):
            call.result(timeout=10)
    with pytest.raises(PeerLost, match="rank 3"):
        world.planes[0].allgather("other", b"", 30.0)
    for rank in range(3):
        assert "rank 3" in heard(world.planes[rank], "lost", 3)[4]


def test_value_of_a_rank_that_died_afterwards_still_counts(world: World) -> None:
    early = world.gather("k", [3])
    time.sleep(0.1)
    world.planes[3].close()
    assert isinstance(early[3].exception(), NotInitialized)
    for call in world.gather("k", [0, 1, 2]).values():
        assert call.result()[3] == b"from 3"


def test_leaving_is_not_being_lost(world: World) -> None:
    waiting = world.gather("k", [0])
    time.sleep(0.1)
    start = time.monotonic()
    world.planes[2].leave(0.2)
    assert 0.1 < time.monotonic() - start < 5
    world.planes[2].close()
    with pytest.raises(PeerLost, match="rank 2 has left"):
        waiting[0].result(timeout=10)
    for rank in (0, 1, 3):
        heard(world.planes[rank], "left", 2)
    world.planes[1].close()  # a notice about a loss of rank 2 would come before this one
    heard(world.planes[0], "lost", 1)
    assert [notice[:2] for notice in world.planes[0].notices()] == [("left", 2), ("lost", 1)]


def test_all_leave_together_without_lingering(world: World) -> None:
    start = time.monotonic()
    for call in [world.start(rank, "leave", 30.0) for rank in range(4)]:
        call.result(timeout=10)
    assert time.monotonic() - start < 10
    world.planes[0].leave(30.0)


def test_leaver_does_not_wait_for_the_lost_and_the_aborted(world: World) -> None:
    world.planes[1].close()
    world.planes[2].abort("CorruptPayload", "bad bytes")
    leaving = world.start(0, "leave", 30.0)
    world.planes[3].leave(0.0)
    leaving.result(timeout=10)


def test_who_has_left_has_heard_how_the_others_ended(kind: str) -> None:
    for _ in range(30):
        with make_world(kind, 3) as world:
            assert world.planes[0].notices() == []  # from now on it listens
            leaving = world.start(0, "leave", 30.0)
            world.planes[1].abort("CorruptPayload", "bad bytes")
            world.planes[2].leave(0.0)
            leaving.result(timeout=10)
            assert ("aborted", 1) in [notice[:2] for notice in world.planes[0].notices()]


def test_a_rank_that_left_takes_part_in_nothing(world: World) -> None:
    world.planes[0].leave(0.0)
    with pytest.raises(NotInitialized, match="left"):
        world.planes[0].allgather("k", b"", 5.0)
    with pytest.raises(NotInitialized):
        world.planes[0].declare("x", "float32[1]", timeout=5.0)


def test_abort_reaches_all_others_once_and_hides_the_loss(world: World) -> None:
    waiting = world.gather("k", [0])
    world.planes[1].abort("CorruptPayload", "tensor 'x' from rank 3 is damaged")
    world.planes[1].abort("Timeout", "a consequence")
    world.planes[1].close()
    with pytest.raises(PeerLost, match="rank 1 failed and ended the job: tensor 'x' from rank 3 is damaged"):
        waiting[0].result(timeout=10)
    expected = ("aborted", 1, 0, "CorruptPayload", "tensor 'x' from rank 3 is damaged")
    for rank in (0, 2, 3):
        assert heard(world.planes[rank], "aborted", 1) == expected
    world.planes[2].close()
    heard(world.planes[0], "lost", 2)
    assert [notice[:2] for notice in world.planes[0].notices()] == [("aborted", 1), ("lost", 2)]
    with pytest.raises(InvalidArgument, match="not the name"):
        world.planes[0].abort("Nonsense", "")


def test_all_ranks_hear_notices_in_the_same_order(kind: str) -> None:
    with make_world(kind, 8) as world:
        endings = [world.start(rank, "abort", "Timeout", f"{rank}") for rank in range(2, 5)]
        endings += [world.start(rank, "leave", 0.0) for rank in range(5, 8)]
        for ending in endings:
            ending.result()
        for rank in range(2, 8):
            world.planes[rank].close()
        wait_until(lambda: all(len(plane.notices()) == 6 for plane in world.planes[:2]))
        assert world.planes[0].notices() == world.planes[1].notices()


def test_who_hears_that_all_have_left_finds_the_door_closed(tcp_world: World) -> None:
    for leaving in [tcp_world.start(rank, "leave", 10.0) for rank in range(3)]:
        leaving.result()
    # The same processes may meet again at this port, and the server that is about to end must not answer them.
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port_of(tcp_world)))


def test_closed_plane_raises_and_releases_its_waiters(world: World) -> None:
    waiting = world.gather("k", [0])
    time.sleep(0.1)
    world.planes[0].close()
    world.planes[0].close()
    with pytest.raises(NotInitialized, match="closed"):
        waiting[0].result(timeout=5)
    with pytest.raises(NotInitialized):
        world.planes[0].allgather("k", b"", 1.0)
    with pytest.raises(NotInitialized):
        world.planes[0].declare("x", "", timeout=1.0)
    with pytest.raises(NotInitialized):
        world.planes[0].leave(1.0)
    world.planes[0].abort("Timeout", "nobody hears this")
