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

#: What a second of a rank's computing or sending counts, beside the step that it is part of.
_WORK = 0.01


@dataclass(frozen=True)
class Found:
    """A plan under consideration."""

    units: list[Unit]
    choices: list[Choice]
    step: StepPrediction
    cost_s: float
    """What plans are compared by: the step, and a little for the work in it. Of two equal steps the one with less to
    compute and to send is the safer one."""

    @property
    def compressed(self) -> bool:
        return any(choice.compressed for choice in self.choices)


def shortest(found: Sequence[Found | None]) -> Found | None:
    """Among equals the first; None if there is none."""
    return min((one for one in found if one is not None), key=lambda one: one.cost_s, default=None)


class Trials:
    """Counts predictions rather than seconds: the same search everywhere finds the same plan."""

    def __init__(self, gradients: GradientSet, model: CostModel, options: PlanningOptions, part: float = 1.0) -> None:
        """`part`: of the predictions that `options` allow."""
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
        """How many more predictions there may be; of large simulations there are fewer."""
        return max(0, self.most - max(self.asked, self._events * self.most // self._most_events))

    def predict(self, units: Sequence[Unit], choices: Sequence[Choice]) -> StepPrediction | None:
        """None: it is beyond the limits, or there were enough predictions."""
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
        """predict(), with what it is about."""
        step = self.predict(units, choices)
        if step is None:
            return None
        sending_s = max(step.sent_bytes) / self.model.profile.link.bandwidth_bytes_per_s
        return Found(units, choices, step, step.step_s + _WORK * (max(step.cpu_s) + sending_s))

    def shorter(self, one: Found, other: Found) -> Found:
        """`one`, which is of these trials, unless `other` is shorter here, wherever it was found."""
        return shortest([one, self.found(other.units, other.choices)]) or one
