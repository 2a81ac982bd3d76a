# SPDX-License-Identifier: Apache-2.0
"""What whole steps took, compared with what their parts take alone: how many times as much each part took in them."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from hipress.secopa.choice import RAW, Choice
from hipress.secopa.gradients import GradientSet
from hipress.secopa.measure.samples import rounded
from hipress.secopa.models.timeline import TimelineModel
from hipress.secopa.profile import AS_ALONE, InSteps, Profile

#: Parts are not measured so badly that they take less than the one or more than the other of that in steps.
_LEAST, _MOST = 0.5, 4.0
#: What a part takes in a step is how much longer the step is if the part takes so many times as long.
_PROBE = 1.5
#: How far coding and merging are from each other, as shares of what they are with smaller partitions, counts as much as
#: such a share of what a step took.
_ALIKE = 0.15


@dataclass(frozen=True)
class Step:
    """One kind of steps. `partition_bytes`: of its largest partitions."""

    gradients: GradientSet
    codec: str
    topology: str
    partitions: int
    partition_bytes: int

    def choices(self) -> list[Choice]:
        return [Choice(self.codec, self.topology, self.partitions)] * len(self.gradients.gradients)


@dataclass(frozen=True)
class Parts:
    """Of what a profile says of one step: seconds of processors, the mean of the ranks'."""

    coding: float = 0.0
    merging: float = 0.0
    adding: float = 0.0
    """What is not compressed."""
    messages: float = 0.0
    """And all else that is not computing."""


class Prediction:
    """By a profile that knows nothing of whole steps."""

    def __init__(self, profile: Profile, world: int) -> None:
        self._as_measured = TimelineModel(profile, world)
        self._slow_coding = TimelineModel(_with(profile, _PROBE, 1.0), world)
        self._slow_merging = TimelineModel(_with(profile, 1.0, _PROBE), world)

    def step_s(self, step: Step) -> float:
        """From its beginning to its end."""
        return self._as_measured.step(step.gradients, step.choices()).step_s

    def parts(self, step: Step) -> Parts:
        told = self._as_measured.step(step.gradients, step.choices())
        computing = statistics.fmean(told.computing_s)
        messages = statistics.fmean(told.cpu_s) - computing
        if step.codec == RAW:
            return Parts(adding=computing, messages=messages)

        def longer(model: TimelineModel) -> float:
            slowed = statistics.fmean(model.step(step.gradients, step.choices()).computing_s)
            return max(0.0, (slowed - computing) / (_PROBE - 1))

        coding, merging = longer(self._slow_coding), longer(self._slow_merging)
        return Parts(coding, merging, max(0.0, computing - coding - merging), messages)


def _with(profile: Profile, coding: float, merging: float) -> Profile:
    factors = (InSteps(partition_bytes=1, coding=coding, merging=merging),)
    codecs = {text: costs.model_copy(update={"in_steps": factors}) for text, costs in profile.codecs.items()}
    return profile.model_copy(update={"codecs": codecs})


def compared(profile: Profile, steps: Mapping[Step, tuple[float, Parts]]) -> Profile:
    """By step, one of which is not compressed and by ps: the seconds of processors it took, and what the profile
    says."""
    raw = {step.topology: _messages(taken_s, told) for step, (taken_s, told) in steps.items() if step.codec == RAW}
    codecs = {}
    for text, costs in profile.codecs.items():
        mine = [(step.partition_bytes, *found) for step, found in steps.items() if step.codec == text]
        factors = [AS_ALONE]
        for size in sorted({size for size, _, _ in mine}):
            these = [(taken_s, told) for other, taken_s, told in mine if other == size]
            factors.append(_fitted(size, raw["ps"], these, factors[-1]))
            if len(factors) > 2:
                factors[-1] = _at_least(factors[-2], factors[-1])
        codecs[text] = costs.model_copy(update={"in_steps": tuple(factors[1:])})
    return profile.model_copy(update={"codecs": codecs, "messages_in_steps": raw})


def _messages(taken_s: float, told: Parts) -> float:
    """How many times as much as alone they took in a step without compression."""
    return _bounded((taken_s - told.adding) / told.messages) if told.messages > 0 else 1.0


def _fitted(partition_bytes: int, messages: float, steps: Iterable[tuple[float, Parts]], smaller: InSteps) -> InSteps:
    """The least squares of relative errors. `smaller`: what was found for smaller partitions."""
    rows, taken = [(_ALIKE / smaller.coding, -_ALIKE / smaller.merging)], [0.0]
    for taken_s, told in steps:
        rows.append((told.coding / taken_s, told.merging / taken_s))
        taken.append((taken_s - told.adding - messages * told.messages) / taken_s)
    if all(coding + merging == 0 for coding, merging in rows[1:]):
        return smaller.model_copy(update={"partition_bytes": partition_bytes})  # nothing of that is encoded
    coding, merging = np.linalg.lstsq(np.array(rows), np.array(taken), rcond=None)[0]
    return InSteps(partition_bytes=partition_bytes, coding=_bounded(coding), merging=_bounded(merging))


def _at_least(smaller: InSteps, larger: InSteps) -> InSteps:
    """Caches hold less of larger partitions: what seems to take less time in them is noise."""
    return InSteps(
        partition_bytes=larger.partition_bytes,
        coding=max(smaller.coding, larger.coding),
        merging=max(smaller.merging, larger.merging),
    )


def _bounded(times: float) -> float:
    return rounded(min(_MOST, max(_LEAST, float(times))))
