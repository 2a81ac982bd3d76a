# SPDX-License-Identifier: Apache-2.0
"""The predictions of a search: cached, checked against the limits of the options, and bounded in number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hipress.secopa.models.cost_model import CostModel, StepPrediction
from hipress.secopa.plan.choice import Choice
from hipress.secopa.planners.limits import within
from hipress.secopa.planners.options import PlanningOptions
from hipress.secopa.planners.units import Unit, choices_of_gradients
from hipress.secopa.profile.gradients import GradientSet

#: Weight of a second of a rank's computing or sending, relative to a second of the step.
_WORK = 0.01


@dataclass(frozen=True)
class Found:
    """A candidate plan with its prediction."""

    units: list[Unit]
    choices: list[Choice]
    step: StepPrediction
    cost_s: float
    """The number by which candidates are compared: the step's duration plus a small weight for its work. Of two equally
    long steps, the step with less work has less risk."""

    @property
    def compressed(self) -> bool:
        return any(choice.compressed for choice in self.choices)


def shortest(found: Sequence[Found | None]) -> Found | None:
    """The candidate with the lowest cost, the first one of equals; None if there is none."""
    return min((one for one in found if one is not None), key=lambda one: one.cost_s, default=None)


class Trials:
    """Calls the cost model. The budget is a number of predictions, not of seconds, so that results are reproducible."""

    def __init__(self, gradients: GradientSet, model: CostModel, options: PlanningOptions, part: float = 1.0) -> None:
        """`part`: the share that these trials get of the predictions in `options`."""
        self.gradients = gradients
        self.model = model
        self.options = options
        self.most = int(part * options.max_evaluations)
        self._most_events = int(part * options.max_events)
        self.asked = 0
        self._events = 0
        self._known: dict[tuple[Choice, ...], StepPrediction] = {}

    @property
    def left(self) -> int:
        """The number of predictions left. Large simulations use up the budget of events first."""
        return max(0, self.most - max(self.asked, self._events * self.most // self._most_events))

    def predict(self, units: Sequence[Unit], choices: Sequence[Choice]) -> StepPrediction | None:
        """The step with these choices; None if the choices break a limit or the budget is used up."""
        spread = choices_of_gradients(units, choices, len(self.gradients.gradients))
        known = self._known.get(spread)
        if known is not None:
            return known
        if not self.left or not within(units, choices, self.model.profile, self.model.world, self.options):
            return None
        prediction = self.model.step(self.gradients, spread)
        self.asked += 1
        self._events += prediction.events
        self._known[spread] = prediction
        return prediction

    def found(self, units: list[Unit], choices: list[Choice]) -> Found | None:
        """The result of predict() as a candidate."""
        step = self.predict(units, choices)
        if step is None:
            return None
        sending_s = max(step.sent_bytes) / self.model.profile.link.bandwidth_bytes_per_s
        return Found(units, choices, step, step.step_s + _WORK * (max(step.cpu_s) + sending_s))

    def shorter(self, one: Found, other: Found) -> Found:
        """`one`, which these trials predicted, unless they predict a lower cost for `other`."""
        return shortest([one, self.found(other.units, other.choices)]) or one
