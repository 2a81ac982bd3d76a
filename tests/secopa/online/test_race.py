# SPDX-License-Identifier: Apache-2.0
"""A race finds the fastest way within few steps, and spends little time on slow ones."""

from __future__ import annotations

import itertools

import pytest

from hipress.secopa.online.race import Race, Way

#: Sent bytes of the gradients, as with these codecs.
WAYS = [Way("none", "ps", 100e6), Way("bf16", "ps", 50e6), Way("int8", "ps", 26e6), Way("int4", "ps", 13e6)]
FASTEST_LINK = 1e-12


def _run(race: Race, seconds: list[float], noise: float = 0.0) -> tuple[int, float]:
    """Steps of the race, and its time."""
    noises = itertools.cycle((0.0, noise, noise / 2))
    steps, total = 0, 0.0
    while race.block is not None:
        block = race.block
        steps += block.steps
        total += block.steps * seconds[block.way]
        race.ended(seconds[block.way] * (1 + next(noises)))
    return steps, total


@pytest.mark.parametrize("fastest", range(len(WAYS)))
@pytest.mark.parametrize("noise", [0.0, 0.04])
def test_the_fastest_way_wins(fastest: int, noise: float) -> None:
    seconds = [1.4, 1.4, 1.4, 1.4]
    seconds[fastest] = 1.0
    race = Race(WAYS, FASTEST_LINK, begins_after=3)
    _run(race, seconds, noise)
    assert race.choice == fastest
    assert race.runner_up is not None
    assert race.runner_up != fastest


def test_of_equal_ways_the_most_exact_one_is_chosen() -> None:
    race = Race(WAYS, FASTEST_LINK, begins_after=3)
    _run(race, [1.2, 1.02, 1.01, 1.0])
    assert WAYS[race.choice].codec == "bf16"


def test_a_way_whose_messages_alone_take_longer_is_not_tried() -> None:
    race = Race(WAYS, 1 / 12.5e6, begins_after=3)  # 100 Mbit/s
    steps, total = _run(race, [9.0, 5.0, 3.1, 2.2])
    assert set(race.seconds) == {2, 3}
    assert WAYS[race.choice].codec == "int4"
    assert total - 2.2 * steps < 20 * 2.2  # 2 % of 1,000 steps


@pytest.mark.parametrize("ways", [2, 4, 9])
def test_a_race_ends_within_sixty_steps(ways: int) -> None:
    race = Race([Way(f"codec {index}", "ps", 1e6 * index) for index in range(ways)], FASTEST_LINK, begins_after=3)
    steps, _ = _run(race, [1.0] * ways)
    assert steps < 60
    assert race.steps == steps
    assert race.choice == 0


def test_one_way_needs_no_race() -> None:
    race = Race(WAYS[:1], FASTEST_LINK, begins_after=3)
    assert race.block is None
    assert race.choice == 0
    assert race.runner_up is None
