# SPDX-License-Identifier: Apache-2.0
"""Declared tensors get numbers over both control planes; conflicts are errors, and tensors for one use can be
declared."""

from __future__ import annotations

import pytest

from hipress.errors import Mismatch
from tests.core.control.control_ranks import World, heard

pytestmark = pytest.mark.timeout(60)


def test_declared_tensors_have_one_number_everywhere(world: World) -> None:
    names = [f"tensor {i}" for i in range(5)]
    numbers = [
        {name: plane.declare(name, "float32[10] onebit", timeout=5.0) for name in names} for plane in world.planes
    ]
    assert all(one == numbers[0] for one in numbers)
    assert sorted(numbers[0].values()) == [1, 2, 3, 4, 5]
    assert world.planes[2].declare(names[0], "float32[10] onebit", timeout=5.0) == numbers[0][names[0]]


def test_conflicting_declaration_is_told_to_all_who_declare(world: World) -> None:
    number = world.planes[0].declare("x", "float32[10]", timeout=5.0)
    world.planes[1].declare("x", "float32[10]", timeout=5.0)
    with pytest.raises(Mismatch, match=r"tensor 'x': rank 2 has float32\[12\], rank 0 has float32\[10\]\. Make all"):
        world.planes[2].declare("x", "float32[12]", timeout=5.0)
    for rank in (0, 1):
        kind, who, tensor, error, message = heard(world.planes[rank], "conflict", 2)
        assert (kind, who, tensor, error) == ("conflict", 2, number, "Mismatch")
        assert "float32[12]" in message
        assert "float32[10]" in message
    with pytest.raises(Mismatch, match="rank 2 has"):
        world.planes[3].declare("x", "float32[10]", timeout=5.0)
    assert not world.planes[2].notices()
    assert world.planes[2].declare("x", "float32[10]", timeout=5.0) == number
    assert world.planes[3].declare("x", "float32[10]", timeout=5.0) == number


def test_transient_tensors_are_forgotten_when_all_have_declared_them(world: World) -> None:
    first = {plane.declare("x", "int64[1]", True, 5.0) for plane in world.planes}
    second = {plane.declare("x", "float64[7]", True, 5.0) for plane in world.planes}
    assert len(first) == len(second) == 1
    assert first != second


def test_rank_ahead_with_a_transient_tensor_is_matched_by_count(world: World) -> None:
    ahead = [world.planes[0].declare("x", f"float32[{step}]", True, 5.0) for step in range(3)]
    assert len(set(ahead)) == 3
    for plane in world.planes[1:]:
        assert [plane.declare("x", f"float32[{step}]", True, 5.0) for step in range(3)] == ahead


def test_transient_tensor_is_not_kept_for_ranks_that_are_gone(world: World) -> None:
    world.planes[3].leave(0.0)
    first = {plane.declare("x", "int64[1]", True, 5.0) for plane in world.planes[:3]}
    assert first != {plane.declare("x", "other", True, 5.0) for plane in world.planes[:3]}
    for plane in world.planes[:2]:
        plane.declare("y", "int64[1]", True, 5.0)
    world.planes[2].close()
    heard(world.planes[0], "lost", 2)
    assert world.planes[0].declare("y", "now different", True, 5.0) > 0


def test_kept_and_transient_tensors_of_one_name_conflict(world: World) -> None:
    world.planes[0].declare("x", "int64[1]", False, 5.0)
    with pytest.raises(Mismatch, match=r"rank 1 has int64\[1\] \(for one use\), rank 0 has int64\[1\] \(kept\)"):
        world.planes[1].declare("x", "int64[1]", True, 5.0)
