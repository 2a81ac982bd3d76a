# SPDX-License-Identifier: Apache-2.0
"""Over both control planes, ranks of a process set agree without the others."""

from __future__ import annotations

import pytest

from hipress.errors import InvalidArgument, PeerLost, Timeout
from tests.core.control.control_ranks import World

pytestmark = pytest.mark.timeout(60)


def _gathered(world: World, ranks: list[int], among: list[int]) -> list[list[bytes]]:
    calls = [world.start(rank, "allgather", "key", b"%d" % rank, 5.0, among) for rank in ranks]
    return [call.result() for call in calls]


def test_an_allgather_has_the_values_of_the_set(world: World) -> None:
    assert _gathered(world, [1, 3], [1, 3]) == [[b"1", b"3"]] * 2
    assert _gathered(world, [0, 1, 2, 3], []) == [[b"0", b"1", b"2", b"3"]] * 4


def test_a_rank_outside_of_the_set_is_refused(world: World) -> None:
    with pytest.raises(InvalidArgument, match="rank 0 is not in the process set of ranks 1 and 3"):
        world.planes[0].allgather("key", b"", 5.0, [1, 3])
    with pytest.raises(InvalidArgument, match="rank 2 is not in the process set of ranks 0-1 and 3"):
        world.planes[2].declare("x", "float32[1]", among=[0, 1, 3])
    with pytest.raises(InvalidArgument, match="in rising order, each once"):
        world.planes[0].declare("x", "float32[1]", among=[3, 0])


def test_ranks_that_call_one_key_among_other_ranks_are_told(world: World) -> None:
    with pytest.raises(Timeout, match="rank 1 has not arrived"):
        world.planes[0].allgather("key", b"", 0.05, [0, 1])
    with pytest.raises(InvalidArgument, match="'key' is among ranks 0-1, and rank 1 called it among ranks 1-2"):
        world.planes[1].allgather("key", b"", 5.0, [1, 2])


def test_a_tensor_for_one_use_is_forgotten_when_the_set_has_declared_it(world: World) -> None:
    for what in ("int64[1]", "float64[7]", "bool[3]"):
        numbers = {world.planes[rank].declare("x", what, True, 5.0, [0, 2]) for rank in (0, 2)}
        assert len(numbers) == 1


def test_a_set_ends_with_the_first_lost_rank_of_it(world: World) -> None:
    world.planes[3].leave(0.0)
    assert _gathered(world, [0, 1], [0, 1]) == [[b"0", b"1"]] * 2
    with pytest.raises(PeerLost, match="rank 3 has left"):
        _gathered(world, [2], [2, 3])
