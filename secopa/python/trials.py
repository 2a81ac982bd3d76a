# SPDX-License-Identifier: Apache-2.0
"""What a search has tried: predictions are asked for once, within limits, and only so often."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hipress.secopa.choice import Choice
from hipress.secopa.cost_model import CostModel, StepPrediction
from hipress.secopa.gradients import GradientSet
from hipress.secopa.limits import within
from hipress.secopa.planning_options import PlanningOptions
from hipress.secopa.units import Unit, choices_of_gradients


@dataclass(frozen=True)
class Found:
    """A plan under consideration."""

    units: list[Unit]
    choices: list[Choice]
    step: StepPrediction

    @property
    def compressed(self) -> bool:
        return any(choice.compressed for choice in self.choices)


def shortest(found: Sequence[Found | None]) -> Found | None:
    """Among equals the first; None if there is none."""
    return min((one for one in found if one is not None), key=lambda one: one.step.step_s, default=None)


class Trials:
    """Counts predictions rather than seconds: the same search everywhere finds the same plan."""

    def __init__(self, gradients: GradientSet, model: CostModel, options: PlanningOptions) -> None:
        self.gradients = gradients
        self.model = model
        self.options = options
        self.left = options.max_evaluations
        self._known: dict[tuple[Choice, ...], StepPrediction] = {}

    def predict(self, units: Sequence[Unit], choices: Sequence[Choice]) -> StepPrediction | None:
        """None: it is beyond the limits, or there were enough predictions."""
        spread = choices_of_gradients(units, choices, len(self.gradients.gradients))
        known = self._known.get(spread)
        if known is not None:
            return known
        if self.left <= 0 or not within(units, choices, self.model.profile, self.model.world, self.options):
            return None
        self.left -= 1
        prediction = self.model.step(self.gradients, spread)
        self._known[spread] = prediction
        return prediction

    def found(self, units: list[Unit], choices: list[Choice]) -> Found | None:
        """predict(), with what it is about."""
        step = self.predict(units, choices)
        return None if step is None else Found(units, choices, step)
