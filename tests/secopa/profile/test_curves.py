# SPDX-License-Identifier: Apache-2.0
"""Cost curves from measurements and from publications."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hipress.secopa.profile.curves import CostPoint, EncodedSize, EncodedSizes, MeasuredCurve, PublishedCurve


def curve(*points: tuple[int, float]) -> MeasuredCurve:
    return MeasuredCurve(
        points=tuple(CostPoint(bytes=size, median_s=s, smallest_s=s / 2, largest_s=2 * s) for size, s in points)
    )


def test_a_line_is_found_and_followed() -> None:
    line = curve(*((size, 1e-4 + 2e-9 * size) for size in (1000, 10_000, 100_000, 1_000_000)))
    assert line.fixed_s == pytest.approx(1e-4)
    assert line.s_per_byte == pytest.approx(2e-9)
    for size in (0, 1, 1000, 5000, 999_999, 50_000_000):
        assert line.seconds(size) == pytest.approx(1e-4 + 2e-9 * size)


def test_between_measured_sizes_the_medians_count() -> None:
    bent = curve((1000, 1.0), (2000, 5.0), (4000, 6.0))
    assert [bent.seconds(size) for size in (1000, 1500, 2000, 3000, 4000)] == [1.0, 3.0, 5.0, 5.5, 6.0]


def test_one_point_is_a_rate() -> None:
    assert curve((1000, 2.0)).seconds(500) == pytest.approx(1.0)
    assert curve((1000, 2.0)).seconds(3000) == pytest.approx(6.0)
    assert curve((0, 2.0)).seconds(3000) == 2.0


@given(
    st.lists(st.tuples(st.integers(0, 10**9), st.floats(0, 100)), min_size=1, max_size=8, unique_by=lambda p: p[0]),
    st.floats(0, 1e11),
)
def test_noise_never_makes_a_cost_negative(points: list[tuple[int, float]], size: float) -> None:
    noisy = curve(*sorted(points))
    assert noisy.seconds(size) >= 0
    assert noisy.fixed_s >= 0
    assert noisy.s_per_byte >= 0


def test_there_is_no_step_at_the_ends() -> None:
    noisy = curve((1000, 3.0), (2000, 1.0), (4000, 9.0))
    for size in (1000, 4000):
        below, at, above = (noisy.seconds(size + offset) for offset in (-1e-6, 0, 1e-6))
        assert below == pytest.approx(at)
        assert above == pytest.approx(at)


@pytest.mark.parametrize("points", [[(2, 1.0), (1, 1.0)], [(1, 1.0), (1, 1.0)]])
def test_sizes_must_grow(points: list[tuple[int, float]]) -> None:
    with pytest.raises(ValueError, match="in the order of their sizes"):
        curve(*points)


def test_a_median_outside_the_spread_is_refused() -> None:
    with pytest.raises(ValueError, match="not between smallest and largest"):
        CostPoint(bytes=1, median_s=3.0, smallest_s=1.0, largest_s=2.0)


def test_the_published_form_is_a_line_above_an_overhead() -> None:
    published = PublishedCurve(s_per_byte=2.0, fixed_s=1.0, overhead_s=7.0)
    assert [published.seconds(size) for size in (0, 2, 3, 4)] == [7.0, 7.0, 7.0, 9.0]


def test_encoded_sizes() -> None:
    sizes = EncodedSizes(
        points=(EncodedSize(raw_bytes=1000, encoded_bytes=140), EncodedSize(raw_bytes=3000, encoded_bytes=200))
    )
    assert sizes.of(2000) == 170
    assert sizes.of(6000) == 400
    assert sizes.of(500) == 140
    assert sizes.of(100) == 100
    assert all(sizes.of(one) <= sizes.of(other) for one, other in pairwise(range(0, 9000, 100)))
