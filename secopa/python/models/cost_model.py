# SPDX-License-Identifier: Apache-2.0
"""The interface of all cost models. Planners use nothing else of a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from hipress.secopa.plan.choice import Choice
from hipress.secopa.profile.gradients import GradientSet
from hipress.secopa.profile.profile import Profile


@dataclass(frozen=True)
class GradientTimes:
    """Seconds from the start of backward. All members of a group have the times of the group."""

    start_s: float
    """The time at which backward releases the gradient, or the last member of its group."""
    end_s: float
    """The time at which every rank has the average."""


@dataclass(frozen=True)
class StepPrediction:
    """One step, from the start of backward until every rank has every average."""

    step_s: float
    backward_s: float
    gradients: tuple[GradientTimes, ...]
    """The times of the gradients, in the order of the given gradient set."""
    sent_bytes: tuple[int, ...]
    """Bytes that each rank sends to other hosts."""
    cpu_s: tuple[float, ...]
    """Processor seconds of each rank for synchronisation."""
    computing_s: tuple[float, ...] = ()
    """The part of `cpu_s` for encoding, decoding and adding; empty if the model does not know it."""
    events: int = 0
    """Number of simulated events, a measure of the work of the prediction; 0 for a formula."""


class CostModel(Protocol):
    """A cost model. One object is for one profile and one number of ranks."""

    @property
    def name(self) -> str:
        """The name that `--model` takes."""

    @property
    def profile(self) -> Profile:
        """The profile of the constructor."""

    @property
    def world(self) -> int:
        """Number of ranks."""

    @property
    def topologies(self) -> tuple[str, ...]:
        """The topologies that the model knows; empty: every topology that the runtime can build."""

    @property
    def codecs(self) -> tuple[str, ...]:
        """The codecs of the profile whose steps the model can predict."""

    def gradient_s(self, elements: int, choice: Choice) -> float:
        """Seconds to synchronise one gradient of float32 while the links and processors are otherwise idle."""

    def step(self, gradients: GradientSet, choices: Sequence[Choice]) -> StepPrediction:
        """The step in which every gradient is synchronised as its choice says. There is one choice per gradient."""
