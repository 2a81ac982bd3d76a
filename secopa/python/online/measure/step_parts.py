# SPDX-License-Identifier: Apache-2.0
"""Compares measured steps with the sum of their parts, and fits the factor of each part."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from hipress.secopa.models.timeline import TimelineModel
from hipress.secopa.online.measure.samples import rounded
from hipress.secopa.plan.choice import RAW, Choice
from hipress.secopa.profile.gradients import GradientSet
from hipress.secopa.profile.profile import AS_ALONE, InSteps, Profile

#: Bounds of a factor; a value outside them is an error of measurement.
_LEAST, _MOST = 0.5, 4.0
#: To find the share of a part in a step, the part is made slower by this factor.
_PROBE = 1.5
#: Weight of the difference between the changes of coding and merging, relative to an error of the step's time: the fit
#: prefers factors that change alike from smaller to larger partitions.
_ALIKE = 0.15


@dataclass(frozen=True)
class Step:
    """The settings of a step. `partition_bytes`: bytes of its largest partitions."""

    gradients: GradientSet
    codec: str
    topology: str
    partitions: int
    partition_bytes: int

    def choices(self) -> list[Choice]:
        return [Choice(self.codec, self.topology, self.partitions)] * len(self.gradients.gradients)


@dataclass(frozen=True)
class Parts:
    """The predicted parts of one step: processor seconds, the mean over the ranks."""

    coding: float = 0.0
    merging: float = 0.0
    adding: float = 0.0
    """Adding uncompressed values."""
    messages: float = 0.0
    """The seconds of messages and of all other work except computing."""


class Prediction:
    """Predicts steps by a profile without factors for whole steps."""

    def __init__(self, profile: Profile, world: int) -> None:
        self._as_measured = TimelineModel(profile, world)
        self._slow_coding = TimelineModel(_with(profile, _PROBE, 1.0), world)
        self._slow_merging = TimelineModel(_with(profile, 1.0, _PROBE), world)

    def step_s(self, step: Step) -> float:
        """Duration of the step."""
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
    linked = {text: costs.model_copy(update={"in_steps": coding}) for text, costs in profile.linked.items()}
    return profile.model_copy(update={"codecs": codecs, "linked": linked})


def compared(profile: Profile, steps: Mapping[Step, tuple[float, Parts]]) -> Profile:
    """The profile with factors. `steps`: for each step its measured processor seconds and its predicted parts; one of
    the steps is uncompressed with topology ps."""
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
    linked = {}
    for text, linked_costs in profile.linked.items():
        its = [found for step, found in steps.items() if step.codec == text]
        factor = _linked_factor(raw["ps"], *its[0]) if its else 1.0
        linked[text] = linked_costs.model_copy(update={"in_steps": factor})
    return profile.model_copy(update={"codecs": codecs, "linked": linked, "messages_in_steps": raw})


def _linked_factor(messages: float, taken_s: float, told: Parts) -> float:
    """The factor of the computations of two linked tensors, from one step."""
    if told.coding <= 0:
        return 1.0  # no gradient of the step is large enough for linked tensors
    return _bounded((taken_s - told.adding - messages * told.messages) / told.coding)


def _messages(taken_s: float, told: Parts) -> float:
    """The factor of messages in an uncompressed step."""
    return _bounded((taken_s - told.adding) / told.messages) if told.messages > 0 else 1.0


def _fitted(partition_bytes: int, messages: float, steps: Iterable[tuple[float, Parts]], smaller: InSteps) -> InSteps:
    """Fits the factors by least squares of relative errors. `smaller`: the factors of smaller partitions."""
    rows, taken = [(_ALIKE / smaller.coding, -_ALIKE / smaller.merging)], [0.0]
    for taken_s, told in steps:
        rows.append((told.coding / taken_s, told.merging / taken_s))
        taken.append((taken_s - told.adding - messages * told.messages) / taken_s)
    if all(coding + merging == 0 for coding, merging in rows[1:]):
        return smaller.model_copy(update={"partition_bytes": partition_bytes})  # no encoded partition has this size
    coding, merging = np.linalg.lstsq(np.array(rows), np.array(taken), rcond=None)[0]
    return InSteps(partition_bytes=partition_bytes, coding=_bounded(coding), merging=_bounded(merging))


def _at_least(smaller: InSteps, larger: InSteps) -> InSteps:
    """The larger partitions' factors, at least those of smaller partitions: caches hold less of larger partitions."""
    return InSteps(
        partition_bytes=larger.partition_bytes,
        coding=max(smaller.coding, larger.coding),
        merging=max(smaller.merging, larger.merging),
    )


def _bounded(times: float) -> float:
    return rounded(min(_MOST, max(_LEAST, float(times))))
