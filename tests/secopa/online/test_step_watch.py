# SPDX-License-Identifier: Apache-2.0
"""The watch notices when steps take another time than before, and ignores single steps."""

from __future__ import annotations

import pytest

from hipress.secopa.online.step_watch import StepWatch


def left_after(intervals: list[float], watch: StepWatch) -> int | None:
    """The number of intervals after which the watch reports that the usual time has changed; None if it never does."""
    for number, seconds in enumerate(intervals, start=1):
        while not watch.add(seconds):
            pass
        if watch.has_left(watch.take()):
            return number
    return None


@pytest.mark.parametrize(
    ("intervals", "noticed"),
    [
        ([1.0] * 9, None),
        ([1.0, 1.2, 0.81, 1.2, 1.2], None),
        ([1.0, 1.0, 2.0, 2.0, 2.0], 4),
        ([1.0, 0.5, 0.5], 3),
        ([1.0, 2.0, 1.0, 2.0, 1.0], None),
        ([1.0, 2.0, 0.5, 0.5], 4),
    ],
)
def test_two_intervals_on_the_same_side_count(intervals: list[float], noticed: int | None) -> None:
    assert left_after(intervals, StepWatch(5, tolerance=1.25)) == noticed


def test_single_steps_and_the_first_ones_after_a_change_mean_nothing() -> None:
    watch = StepWatch(3, settling=2)
    steps = [50.0, 50.0, 1.0, 9.0, 1.0, 1.0, 1.0, 9.0]
    ends = [index for index, seconds in enumerate(steps) if watch.add(seconds) and not watch.has_left(watch.take())]
    assert ends == [4, 7]
    assert watch.usual_s == 1.0
