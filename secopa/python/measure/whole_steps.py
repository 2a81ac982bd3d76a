# SPDX-License-Identifier: Apache-2.0
"""What computing and messages cost inside whole steps, by what they cost alone.

In a step all ranks encode, add, send and receive at the same time: threads take turns on processors, caches and memory
are shared with everything else. No part measured by itself says that. So some steps are measured with every codec, in
turn, and what processors did is compared with what the parts add up to.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hipress import _core
from hipress.secopa.choice import RAW
from hipress.secopa.curves import CostCurve, MeasuredCurve
from hipress.secopa.gradients import Gradient, GradientSet
from hipress.secopa.measure.session import Session
from hipress.secopa.measure.step_parts import Prediction, Step, compared
from hipress.secopa.profile import Profile

#: Elements of the gradients where no model is known: few have most of them. Of a known model's as many are sent: with a
#: third of that, what a step costs besides its bytes would make each of them seem a tenth dearer.
_ELEMENTS = (1 << 22, *(1 << 21,) * 4, *(1 << 18,) * 8, *(1 << 16,) * 8, *(1 << 14,) * 8)
#: What such a step may take uncompressed, by the link's rate (seconds): fewer of them are sent in it.
_RAW_STEP_S = 0.2
#: Bytes of the largest partitions that are cut by size; and of some that, with all ranks', are in no cache: one for
#: each rank, to so many.
_BY_SIZE, _LARGE = 4 << 20, 16 << 20
_MOST_LARGE = 4
#: Of steps without compression: in a ring what comes in is in caches still when it is added up and sent on.
_RAW_TOPOLOGIES = ("ps", "ring")
#: And of others. The first encodes most by what it adds up, the second adds up most.
_TOPOLOGIES = ("ps", "allgather")
#: In the second every rank sends to all others: it is left out if that would take longer (seconds).
_LONGEST_S = 0.3
#: In each turn: memory, that of codecs too, is allocated by the first two, and the third finds it.
_WARM_UP, _STEPS = 3, 3
_MOST_TURNS = 5


def in_steps(session: Session, profile: Profile, seconds: float) -> Profile:
    """The profile, with how many times as long everything takes inside steps. All ranks call it and get the same.

    Raises PeerLost, Timeout.
    """
    if session.world == 1:
        return profile
    end = time.perf_counter() + seconds
    gradients = tried(profile, most_raw_elements(profile, session.world))
    raw = [Step(gradients, RAW, topology, 0, _BY_SIZE) for topology in _RAW_TOPOLOGIES]
    models = [replace(raw[0], gradients=tried(profile))]
    if _largest_bytes(profile.sum) >= _LARGE:
        partitions = min(session.world, _MOST_LARGE)
        models.append(Step(_gradients([partitions * _LARGE // 4]), RAW, "ps", partitions, _LARGE))
    prediction = Prediction(profile, session.world)
    with_codecs = (_with_codecs(session, prediction, profile, model) for model in models)
    trials = [raw, *(steps for steps in with_codecs if steps)]  # without any if links only are measured
    cpu_s: dict[Step, float] = {}
    for index, steps in enumerate(trials):
        cpu_s |= _measured(session, steps, (end - time.perf_counter()) / (len(trials) - index))
    return compared(profile, {step: (taken_s, prediction.parts(step)) for step, taken_s in cpu_s.items()})


def tried(profile: Profile, most_elements: float = sum(_ELEMENTS)) -> GradientSet:
    """What is sent in these steps: gradients like the model's, or made up; smaller if they have more elements."""
    known = () if profile.gradients is None else profile.gradients.gradients
    counts = [one.elements for one in known] or list(_ELEMENTS)
    smaller = max(1.0, sum(counts) / min(most_elements, sum(_ELEMENTS)))
    return _gradients([max(1, int(count / smaller)) for count in counts])


def most_raw_elements(profile: Profile, world: int) -> float:
    links = [profile.link, *(one.costs for one in profile.links)]
    rate = min(link.both_ways_bytes_per_s for link in links)
    return _RAW_STEP_S * rate * world / (2 * (world - 1)) / 4


def _gradients(counts: Sequence[int]) -> GradientSet:
    return GradientSet(gradients=tuple(Gradient(name=f"{index}", elements=count) for index, count in enumerate(counts)))


def _largest_bytes(curve: CostCurve) -> int:
    return curve.points[-1].bytes if isinstance(curve, MeasuredCurve) else 0


def _with_codecs(session: Session, prediction: Prediction, profile: Profile, model: Step) -> list[Step]:
    """That one with every codec."""
    steps = []
    for topology in _TOPOLOGIES:
        for codec in profile.codecs:
            step = replace(model, codec=codec, topology=topology)
            if topology == model.topology or prediction.step_s(step) <= _LONGEST_S:
                steps.append(step)
    # Rank 0's, should arithmetic differ elsewhere.
    agreed = session.gather([(step.codec, step.topology) for step in steps])[0]
    return [replace(model, codec=codec, topology=topology) for codec, topology in agreed]


def _measured(session: Session, steps: Sequence[Step], seconds: float) -> dict[Step, float]:
    """Seconds of processors that each takes, in turn."""
    trial = _Trial(session, steps[0].gradients)
    cpu_s: dict[Step, list[float]] = {step: [] for step in steps}
    end = time.perf_counter() + seconds
    for turn in range(_MOST_TURNS):
        if turn and session.gather(end - time.perf_counter())[0] < 0:
            break
        for step, found in cpu_s.items():
            found += trial.repeated(step)
    trial.end()
    return {step: statistics.median(found) for step, found in cpu_s.items()}


class _Trial:
    """Tensors like the gradients, on all ranks."""

    def __init__(self, session: Session, gradients: GradientSet) -> None:
        self._session = session
        self._elements = [one.elements for one in gradients.gradients]
        self._name = session.numbered("steps")
        random = np.random.default_rng(session.rank)
        self._values = [random.standard_normal(count, np.float32) for count in self._elements]
        self._outputs = [np.zeros(count, np.float32) for count in self._elements]
        self._handles = session.engine.agree(self._name, self._specs(RAW, "ps", 0))

    def _specs(self, codec: str, topology: str, partitions: int) -> Sequence[_core.TensorSpec]:
        return [
            _core.TensorSpec(
                f"{self._name} {index}",
                count=count,
                shape=f"[{count}]",
                codec=codec,
                topology=topology,
                partitions=partitions,
            )
            for index, count in enumerate(self._elements)
        ]

    def repeated(self, step: Step) -> list[float]:
        """Seconds of processors, the mean of the ranks', of some such steps."""
        self._travel(step.codec, step.topology, step.partitions)
        mine = [self._once() for _ in range(_WARM_UP + _STEPS)][_WARM_UP:]
        return [statistics.fmean(ranks) for ranks in zip(*self._session.gather(mine), strict=True)]

    def _once(self) -> float:
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

    def _travel(self, codec: str, topology: str, partitions: int) -> None:
        specs = self._specs(codec, topology, partitions)
        agreed = self._session.engine.agree_anew(self._session.numbered("travels"), self._handles, specs)
        self._handles = [handle for handle, _ in agreed]

    def end(self) -> None:
        """Codecs' memory is given back."""
        self._travel(RAW, "ps", 0)
