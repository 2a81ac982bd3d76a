# SPDX-License-Identifier: Apache-2.0
"""codec="auto": it chooses by steps, looks at its choice again, follows the network, and the model sets nothing off."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from hipress.secopa.online.race import Way
from hipress.secopa.online.ways import AutomaticWays

WAYS = (Way("none", "ps", 100e6), Way("bf16", "ps", 50e6), Way("int8", "ps", 26e6), Way("int4", "ps", 13e6))
GIGABIT = 1 / 125e6


@dataclass
class Simulated:
    """A training with a clock of its own: a step computes, encodes and sends, one after the other."""

    per_byte: float = GIGABIT
    computing_s: float = 0.2
    encoding_s: dict[str, float] = field(
        default_factory=lambda: {"none": 0.0, "bf16": 0.01, "int8": 0.02, "int4": 0.03}
    )
    refused: tuple[str, ...] = ()
    way: Way = WAYS[0]
    now: float = 0.0
    changes: list[str] = field(default_factory=list)

    def mark(self) -> float:
        return self.now

    def seconds(self, marks: Sequence[float]) -> list[float]:
        return [after - before for before, after in itertools.pairwise(marks)]

    def agreed(self, seconds: float) -> float:
        return seconds

    def seconds_per_byte(self) -> float:
        self.now += 0.1
        return self.per_byte

    def takes(self, way: Way) -> bool:
        return way.codec not in self.refused

    def change(self, way: Way) -> None:
        self.way = way
        self.changes.append(way.codec)

    @property
    def step_s(self) -> float:
        return self.computing_s + self.encoding_s[self.way.codec] + self.way.sent_bytes * self.per_byte

    def train(self, ways: AutomaticWays, steps: int) -> None:
        for _ in range(steps):
            ways.step_begins()
            self.now += self.step_s


def _chosen(ways: AutomaticWays) -> str:
    assert ways.chosen is not None
    return ways.chosen.codec


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "hipress.plan")
    return caplog


@pytest.mark.parametrize(
    ("per_byte", "codec"),
    [(GIGABIT, "int4"), (GIGABIT / 8, "int8"), (GIGABIT / 100, "none"), (GIGABIT * 100, "int4")],
)
def test_the_fastest_way_of_the_network_is_chosen_within_sixty_steps(per_byte: float, codec: str) -> None:
    training = Simulated(per_byte)
    ways = AutomaticWays(training, WAYS, says=True)
    training.train(ways, 60)
    assert _chosen(ways) == codec


def test_it_costs_less_than_two_percent_of_the_first_thousand_steps() -> None:
    training = Simulated()
    ways = AutomaticWays(training, WAYS, says=True)
    training.train(ways, 1000)
    assert training.now < 1.02 * 1000 * training.step_s


def test_it_says_what_it_measured_and_what_it_chose(said: pytest.LogCaptureFixture) -> None:
    training = Simulated()
    training.train(AutomaticWays(training, WAYS, says=True), 60)
    assert said.messages[0].endswith("tries none, bf16 over ps, int8 over ps, int4 over ps")
    assert "int4 over ps is the fastest" in said.messages[1]
    assert "a step takes with bf16 over ps 610 ms, int8 over ps 428 ms, int4 over ps 334 ms" in said.messages[1]
    assert said.messages[1].endswith("not tried, as their messages alone take longer: none")
    assert said.messages[2].endswith("a step with int4 over ps takes 334 ms, in the race 334 ms")


def test_a_way_that_the_training_cannot_take_is_left_out(said: pytest.LogCaptureFixture) -> None:
    training = Simulated(refused=("int4",))
    ways = AutomaticWays(training, WAYS, says=True)
    training.train(ways, 60)
    assert _chosen(ways) == "int8"
    assert "int4" not in training.changes
    assert said.messages[0].endswith(
        "leaves out int4 over ps: they keep values, and the loss scaler was not handed over"
    )


def test_other_ranks_say_nothing(said: pytest.LogCaptureFixture) -> None:
    training = Simulated()
    training.train(AutomaticWays(training, WAYS, says=False), 60)
    assert not said.messages


def test_a_choice_that_is_slower_than_in_its_race_has_to_win_again() -> None:
    training = Simulated()
    ways = AutomaticWays(training, WAYS, says=True)
    while ways.chosen is None:
        training.train(ways, 1)
    assert _chosen(ways) == "int4"
    training.encoding_s["int4"] = 0.3
    training.train(ways, 60)
    assert _chosen(ways) == "int8"
    assert training.changes.count("bf16") < 3  # nobody tried the slow ways again


def test_another_network_starts_another_race() -> None:
    training = Simulated()
    ways = AutomaticWays(training, WAYS, says=True)
    training.train(ways, 3000)
    training.per_byte = GIGABIT / 100
    training.train(ways, 500)
    assert _chosen(ways) == "none"


def test_a_network_that_changes_soon_after_a_race_is_followed_later() -> None:
    training = Simulated()
    ways = AutomaticWays(training, WAYS, says=True)
    training.train(ways, 100)
    training.per_byte = GIGABIT / 100
    training.train(ways, 300)
    assert _chosen(ways) == "int4"
    training.train(ways, 3000)
    assert _chosen(ways) == "none"


def test_longer_sequences_start_none() -> None:
    training = Simulated()
    ways = AutomaticWays(training, WAYS, says=True)
    training.train(ways, 3000)
    before = len(training.changes)
    for _ in range(20):
        training.computing_s = 0.8 - training.computing_s
        training.train(ways, 100)
    assert len(training.changes) == before


def test_a_network_that_goes_to_and_fro_starts_fewer_and_fewer() -> None:
    training = Simulated()
    ways = AutomaticWays(training, WAYS, says=True)
    training.train(ways, 3000)
    counts = []
    for _ in range(3):
        before = len(training.changes)
        for _ in range(20):
            training.per_byte = GIGABIT if training.per_byte != GIGABIT else GIGABIT / 100
            training.train(ways, 300)
        counts.append(len(training.changes) - before)
    assert counts[-1] < counts[0]


def test_a_resumed_training_goes_on_with_its_choice() -> None:
    training = Simulated()
    ways = AutomaticWays(training, WAYS, says=True)
    training.train(ways, 100)
    resumed = Simulated()
    ways_of_resumed = AutomaticWays(resumed, WAYS, says=True)
    ways_of_resumed.load_state_dict(ways.state_dict())
    resumed.train(ways_of_resumed, 100)
    assert _chosen(ways_of_resumed) == "int4"
    assert resumed.changes == ["int4"]


@pytest.mark.parametrize("ways", [WAYS, WAYS[:2]], ids=["another network", "a codec that is not cleared here"])
def test_a_checkpoint_of_elsewhere_starts_a_race(ways: Sequence[Way]) -> None:
    before = Simulated()
    earlier = AutomaticWays(before, WAYS, says=True)
    before.train(earlier, 100)
    training = Simulated(GIGABIT / 100)
    resumed = AutomaticWays(training, ways, says=True)
    resumed.load_state_dict(earlier.state_dict())
    training.train(resumed, 100)
    assert _chosen(resumed) == "none"


def test_before_the_first_choice_there_is_nothing_to_save() -> None:
    training = Simulated()
    ways = AutomaticWays(training, WAYS, says=True)
    assert ways.state_dict() == {}
    training.train(ways, 5)
    assert ways.state_dict() == {}
    assert ways.chosen is None
    ways.load_state_dict({})
    training.train(ways, 60)
    assert _chosen(ways) == "int4"
