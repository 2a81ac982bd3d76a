# SPDX-License-Identifier: Apache-2.0
"""Small gradients become groups, and tensors get numbers of partitions."""

from __future__ import annotations

import pytest

from hipress.secopa.plan.choice import Choice
from hipress.secopa.plan.partitions import by_size, sensible
from hipress.secopa.planners.options import PlanningOptions
from hipress.secopa.planners.units import choices_of_gradients, fuse, units_of
from hipress.secopa.profile.gradients import Gradient, GradientSet
from tests.secopa.profiles import profile

KIB = 1024


def gradient(name: str, kib: float, release_s: float = 0.0, dtype: str = "float32") -> Gradient:
    return Gradient(name=name, elements=int(kib * 256), release_s=release_s, dtype=dtype)


def test_small_ones_that_travel_alike_are_fused_in_the_order_of_release() -> None:
    small = [gradient(name, 20, release_s) for name, release_s in (("a", 0.4), ("b", 0.3), ("c", 0.2), ("d", 0.1))]
    gradients = GradientSet(gradients=(gradient("large", 90), *small, gradient("half", 20, 0.3, "float16")))
    units = units_of(gradients, profile(), PlanningOptions())
    fused, ways = fuse(units, [Choice("onebit")] * 6, 80 * KIB, world=4)
    # d, c, b and a form a group. A gradient of another type, or larger than a quarter of the limit, stays alone.
    assert [unit.members for unit in fused] == [(0,), (4, 3, 2, 1), (5,)]
    assert fused[1].bytes == 80 * KIB
    assert fused[1].release_s == 0.4
    spread = choices_of_gradients(fused, ways, 6)
    assert [choice.group for choice in spread] == [None, "1", "1", "1", "1", None]
    # Each gradient is larger than a quarter of 79 KiB.
    alone, _ = fuse(units, [Choice("onebit")] * 6, 80 * KIB, world=4, alone={"onebit"})
    assert [unit.members for unit in alone] == [(index,) for index in range(6)]
    apart, _ = fuse(units, [Choice("onebit")] * 6, 79 * KIB, world=4)
    assert [len(unit.members) for unit in apart] == [1] * 6


def test_what_travels_differently_stays_apart() -> None:
    gradients = GradientSet(gradients=tuple(gradient(name, 8) for name in "abcd"))
    units = units_of(gradients, profile(), PlanningOptions())
    ways = [Choice("onebit"), Choice(), Choice("onebit"), Choice("onebit", "ring")]
    fused, _ = fuse(units, ways, 64 * KIB, world=4)
    assert sorted(tuple(sorted(unit.members)) for unit in fused) == [(0, 2), (1,), (3,)]


def test_a_fused_unit_may_have_what_all_its_members_may() -> None:
    gradients = GradientSet(gradients=(gradient("a", 8), gradient("b", 1), gradient("c", 8)))
    units = units_of(gradients, profile(), PlanningOptions())
    assert [unit.codecs for unit in units] == [("onebit",), (), ("onebit",)]
    fused, _ = fuse(units, [Choice()] * 3, 64 * KIB, world=4)
    assert [unit.codecs for unit in fused] == [()]


@pytest.mark.parametrize(
    ("mib", "world", "partitions"), [(0.1, 4, 1), (0.125, 4, 1), (0.25, 4, 2), (1, 4, 4), (16, 4, 4), (17, 4, 8)]
)
def test_partitions_by_size(mib: float, world: int, partitions: int) -> None:
    assert by_size(int(mib * 2**18), "float32", world) == partitions
    assert by_size(int(mib * 2**19), "float16", world) == partitions


def test_sensible_numbers_of_partitions_begin_with_that() -> None:
    assert sensible(17 * 2**18, "float32", 4) == [8, 1, 4, 16]
    assert sensible(100, "float32", 4) == [1]
    assert sensible(0, "float32", 4) == [1]
