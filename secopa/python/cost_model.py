# SPDX-License-Identifier: Apache-2.0
"""What every cost model answers: the planner knows them by this only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from hipress.secopa.choice import Choice
from hipress.secopa.gradients import GradientSet
from hipress.secopa.profile import Profile


@dataclass(frozen=True)
class GradientTimes:
    """From the start of backward. Members of a group have the group's."""

    start_s: float
    """When its values were there; for a group, those of its last member."""
    end_s: float
    """When every rank has the average."""


@dataclass(frozen=True)
class StepPrediction:
    """One step, from the start of backward until every rank has every average."""

    step_s: float
    backward_s: float
    gradients: tuple[GradientTimes, ...]
    """In the order of the gradients asked about."""
    sent_bytes: tuple[int, ...]
    """By each rank, to other hosts."""
    cpu_s: tuple[float, ...]
    """Of each rank, for synchronisation."""
    computing_s: tuple[float, ...] = ()
    """Of that, encoding, decoding and adding, if the model knows it."""
    events: int = 0
    """How much work the prediction was, if it was simulated."""


class CostModel(Protocol):
    """Made for a profile and a number of ranks."""

    @property
    def name(self) -> str:
        """As in `--model`."""

    @property
    def profile(self) -> Profile:
        """What it was made for."""

    @property
    def world(self) -> int:
        """Ranks."""

    def gradient_s(self, elements: int, choice: Choice) -> float:
        """What synchronising one gradient of float32 takes with nothing else under way."""

    def step(self, gradients: GradientSet, choices: Sequence[Choice]) -> StepPrediction:
        """What a step takes in which every gradient travels as its choice says."""
