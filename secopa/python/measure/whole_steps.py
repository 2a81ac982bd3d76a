# SPDX-License-Identifier: Apache-2.0
"""What computing and messages cost inside whole steps, by what they cost alone.

In a step all ranks encode, add, send and receive at the same time: threads take turns on processors, caches and memory
are shared with everything else. No part measured by itself says that. So some steps are measured with every codec, in
turn, and what processors did is compared with what the parts add up to.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence

import numpy as np

from hipress import _core
from hipress.secopa.choice import RAW, Choice
from hipress.secopa.cost_model import StepPrediction
from hipress.secopa.gradients import Gradient, GradientSet
from hipress.secopa.measure.samples import rounded
from hipress.secopa.measure.session import Session
from hipress.secopa.models.timeline import TimelineModel
from hipress.secopa.profile import Profile

#: Elements of the gradients, where no model is known: they are like this, few have most of them.
_ELEMENTS = (1 << 21, *(1 << 20,) * 2, *(1 << 18,) * 4, *(1 << 16,) * 8, *(1 << 14,) * 8)
#: What such a step may take uncompressed, by the link's rate (seconds).
_RAW_STEP_S = 0.3
_TOPOLOGY = "ps"
#: In each turn: codecs' memory is allocated by the first two, and the third finds it.
_WARM_UP, _STEPS = 3, 4
_MOST_TURNS = 5
#: Parts are not measured so badly that whole steps take less than the one or more than the other of their sum.
_LEAST, _MOST = 0.5, 4.0


def in_steps(session: Session, profile: Profile, seconds: float) -> Profile:
    """The profile, with how many times as long everything takes inside steps. All ranks call it and get the same.

    Raises PeerLost, Timeout.
    """
    if session.world == 1:
        return profile
    gradients = tried(profile, session.world)
    trial = _Trial(session, gradients)
    cpu_s: dict[str, list[float]] = {codec: [] for codec in (RAW, *profile.codecs)}
    end = time.perf_counter() + seconds
    for turn in range(_MOST_TURNS):
        if turn and session.gather(end - time.perf_counter())[0] < 0:
            break
        for codec, found in cpu_s.items():
            found += trial.steps(codec)
    trial.end()
    model = TimelineModel(profile, session.world)
    measured = {codec: statistics.median(found) for codec, found in cpu_s.items()}
    predicted = {codec: _predicted(model, gradients, codec) for codec in measured}
    return compared(profile, measured, predicted)


def tried(profile: Profile, world: int) -> GradientSet:
    """What is sent in these steps: gradients like the model's, or made up; smaller if they would take long, or much
    memory."""
    known = () if profile.gradients is None else profile.gradients.gradients
    counts = [one.elements for one in known] or list(_ELEMENTS)
    links = [profile.link, *(one.costs for one in profile.links)]
    rate = min(link.both_ways_bytes_per_s for link in links)
    raw_step_s = 2 * (world - 1) / world * 4 * sum(counts) / rate
    smaller = max(1.0, raw_step_s / _RAW_STEP_S, sum(counts) / sum(_ELEMENTS))
    return GradientSet(
        gradients=tuple(
            Gradient(name=f"{index}", elements=max(1, int(count / smaller))) for index, count in enumerate(counts)
        )
    )


def _predicted(model: TimelineModel, gradients: GradientSet, codec: str) -> StepPrediction:
    return model.step(gradients, [Choice(codec, _TOPOLOGY, 0)] * len(gradients.gradients))


class _Trial:
    """Tensors like the gradients, on all ranks."""

    def __init__(self, session: Session, gradients: GradientSet) -> None:
        self._session = session
        self._elements = [one.elements for one in gradients.gradients]
        self._name = session.numbered("steps")
        random = np.random.default_rng(session.rank)
        self._values = [random.standard_normal(count, np.float32) for count in self._elements]
        self._outputs = [np.zeros(count, np.float32) for count in self._elements]
        self._handles = session.engine.agree(self._name, self._specs(RAW))

    def _specs(self, codec: str) -> Sequence[_core.TensorSpec]:
        return [
            _core.TensorSpec(f"{self._name} {index}", count=count, shape=f"[{count}]", codec=codec, topology=_TOPOLOGY)
            for index, count in enumerate(self._elements)
        ]

    def steps(self, codec: str) -> list[float]:
        """Seconds of processors, the mean of the ranks', of some steps with the codec."""
        self._travel_with(codec)
        mine = [self._step() for _ in range(_WARM_UP + _STEPS)][_WARM_UP:]
        return [statistics.fmean(ranks) for ranks in zip(*self._session.gather(mine), strict=True)]

    def _step(self) -> float:
        # What is left out of one step's values must not add up.
        for values in self._values:
            np.negative(values, out=values)
        self._session.gather(None)
        engine, start = self._session.engine, time.process_time()
        given = zip(self._handles, self._values, self._outputs, strict=True)
        operations = [engine.submit(handle, values, output) for handle, values, output in given]
        for operation in operations:
            engine.wait(operation)
        # Others may need this rank's processors still.
        self._session.gather(None)
        return time.process_time() - start

    def _travel_with(self, codec: str) -> None:
        agreed = self._session.engine.agree_anew(self._session.numbered("travels"), self._handles, self._specs(codec))
        self._handles = [handle for handle, _ in agreed]

    def end(self) -> None:
        """Codecs' memory is given back."""
        self._travel_with(RAW)


def compared(profile: Profile, measured: Mapping[str, float], predicted: Mapping[str, StepPrediction]) -> Profile:
    """By codec, and none: seconds of processors that a step took, and what it should have taken."""

    def told(codec: str) -> tuple[float, float]:
        """Seconds of computing, and of everything else."""
        step = predicted[codec]
        computing_s = statistics.fmean(step.computing_s)
        return computing_s, statistics.fmean(step.cpu_s) - computing_s

    computing_s, others_s = told(RAW)
    messages = _bounded(measured[RAW] - computing_s, others_s)
    codecs = {}
    for text, costs in profile.codecs.items():
        computing_s, others_s = told(text)
        times = _bounded(measured[text] - messages * others_s, computing_s)
        codecs[text] = costs.model_copy(update={"in_steps": times})
    return profile.model_copy(update={"codecs": codecs, "messages_in_steps": messages})


def _bounded(taken_s: float, told_s: float) -> float:
    """1 for what costs nothing, such as codecs that leave all of these gradients as they are."""
    return rounded(min(_MOST, max(_LEAST, taken_s / told_s))) if told_s > 0 else 1.0
