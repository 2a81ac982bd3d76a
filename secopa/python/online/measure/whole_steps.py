# SPDX-License-Identifier: Apache-2.0
"""The factors by which computing and messages cost more inside whole steps than by themselves.

In a step all ranks encode, add, send and receive at the same time, and share processors, caches and memory.
Measurements of single parts do not show the cost of sharing. So this module runs whole steps with every codec in turn,
and compares their processor time with the sum of the parts.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from hipress import _core
from hipress.secopa.online.measure.session import Session
from hipress.secopa.online.measure.step_parts import Prediction, Step, compared
from hipress.secopa.plan.choice import RAW
from hipress.secopa.profile.curves import CostCurve, MeasuredCurve
from hipress.secopa.profile.gradients import Gradient, GradientSet
from hipress.secopa.profile.profile import Profile

#: Element counts of the gradients if no model is known: a few gradients have most of the elements. Steps of a known
#: model have at most the same total. With a third of this total, the fixed costs of a step would raise the factors by a
#: tenth.
_ELEMENTS = (1 << 22, *(1 << 21,) * 4, *(1 << 18,) * 8, *(1 << 16,) * 8, *(1 << 14,) * 8)
#: Longest uncompressed step by the link's rate (seconds); on slower links it has fewer elements.
_RAW_STEP_S = 0.2
#: Bytes of the largest partitions by default, and of large partitions that exceed the caches.
_BY_SIZE, _LARGE = 4 << 20, 16 << 20
_MOST_LARGE = 4
#: Elements of the smallest gradient that is a matrix.
_SMALLEST_MATRIX = 4096
#: Topologies of uncompressed steps: in a ring a received message is still in a cache when the rank adds and forwards
#: it.
_RAW_TOPOLOGIES = ("ps", "ring")
#: Topologies of compressed steps: ps encodes most, allgather merges most.
_TOPOLOGIES = ("ps", "allgather")
#: The longest predicted allgather step to measure (seconds).
_LONGEST_S = 0.3
#: Steps of each turn: the first two allocate memory, and the third is the first to reuse all of it.
_WARM_UP, _STEPS = 3, 3
_MOST_TURNS = 5


def in_steps(session: Session, profile: Profile, seconds: float) -> Profile:
    """The profile with the factors of computing and messages inside steps. All ranks call it and get the same profile.

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
    trials = [raw, *(steps for steps in with_codecs if steps)]  # no codecs if only links are measured
    cpu_s: dict[Step, float] = {}
    for index, steps in enumerate(trials):
        cpu_s |= _measured(session, steps, (end - time.perf_counter()) / (len(trials) - index))
    return compared(profile, {step: (taken_s, prediction.parts(step)) for step, taken_s in cpu_s.items()})


def tried(profile: Profile, most_elements: float = sum(_ELEMENTS)) -> GradientSet:
    """The gradients of these steps: sizes of the model, or default ones, scaled down to `most_elements`."""
    known = () if profile.gradients is None else profile.gradients.gradients
    counts = [one.elements for one in known] or list(_ELEMENTS)
    smaller = max(1.0, sum(counts) / min(most_elements, sum(_ELEMENTS)))
    if smaller == 1.0 and known:
        return GradientSet(
            gradients=tuple(one.model_copy(update={"release_s": None, "dtype": "float32"}) for one in known)
        )
    return _gradients([max(1, int(count / smaller)) for count in counts])


def most_raw_elements(profile: Profile, world: int) -> float:
    links = [profile.link, *(one.costs for one in profile.links)]
    rate = min(link.both_ways_bytes_per_s for link in links)
    return _RAW_STEP_S * rate * world / (2 * (world - 1)) / 4


def _gradients(counts: Sequence[int]) -> GradientSet:
    shapes = [_matrix(count) for count in counts]
    return GradientSet(
        gradients=tuple(
            Gradient(name=f"{index}", elements=prod(shape), shape=shape) for index, shape in enumerate(shapes)
        )
    )


def _matrix(count: int) -> tuple[int, ...]:
    """A shape of about so many elements: codecs with factors need matrices."""
    if count < _SMALLEST_MATRIX:
        return (count,)
    rows = 1 << (count.bit_length() // 2)
    return (rows, count // rows)


def _largest_bytes(curve: CostCurve) -> int:
    return curve.points[-1].bytes if isinstance(curve, MeasuredCurve) else 0


def _with_codecs(session: Session, prediction: Prediction, profile: Profile, model: Step) -> list[Step]:
    """The step `model` with every codec and topology, except steps that would take too long."""
    steps = []
    for topology in _TOPOLOGIES:
        # Linked tensors are uncompressed, so one topology shows the factor of their computations.
        linked = profile.linked if topology == model.topology and model.partitions == 0 else ()
        for codec in (*profile.codecs, *linked):
            step = replace(model, codec=codec, topology=topology)
            if topology == model.topology or prediction.step_s(step) <= _LONGEST_S:
                steps.append(step)
    # All ranks take rank 0's list, because predictions may differ in the last bit.
    agreed = session.gather([(step.codec, step.topology) for step in steps])[0]
    return [replace(model, codec=codec, topology=topology) for codec, topology in agreed]


def _measured(session: Session, steps: Sequence[Step], seconds: float) -> dict[Step, float]:
    """The processor seconds of each step. The steps are measured in turn."""
    trial = _Trial(session, steps[0].gradients)
    cpu_s: dict[Step, list[float]] = {step: [] for step in steps}
    end = time.perf_counter() + seconds
    for turn in range(_MOST_TURNS):
        if turn and session.gather(end - time.perf_counter())[0] < 0:
            break
        for number, (step, found) in enumerate(cpu_s.items(), start=1):
            session.stage(f"steps with {step.codec} over {step.topology}, {number} of {len(steps)}")
            found += trial.repeated(step)
    trial.end()
    return {step: statistics.median(found) for step, found in cpu_s.items()}


class _Trial:
    """Tensors of the gradients' sizes on all ranks."""

    def __init__(self, session: Session, gradients: GradientSet) -> None:
        self._session = session
        self._elements = [one.elements for one in gradients.gradients]
        self._shapes = [one.shape or (one.elements,) for one in gradients.gradients]
        self._name = session.numbered("steps")
        random = np.random.default_rng(session.rank)
        self._values = [random.standard_normal(count, np.float32) for count in self._elements]
        self._outputs = [np.zeros(count, np.float32) for count in self._elements]
        self._handles = session.engine.agree(self._name, self._specs(RAW, "ps", 0))

    def _specs(self, codec: str, topology: str, partitions: int) -> Sequence[_core.TensorSpec]:
        return [
            _core.TensorSpec(
                # The name contains the size: a later measurement of the job may use the same number with other
                # gradients.
                f"{self._name} {index} {count}",
                count=count,
                shape=str(list(shape)),
                codec=codec,
                topology=topology,
                partitions=partitions,
            )
            for index, (count, shape) in enumerate(zip(self._elements, self._shapes, strict=True))
        ]

    def repeated(self, step: Step) -> list[float]:
        """Processor seconds of some steps, each the mean over the ranks."""
        self._switch_to(step.codec, step.topology, step.partitions)
        mine = [self._once() for _ in range(_WARM_UP + _STEPS)][_WARM_UP:]
        return [statistics.fmean(ranks) for ranks in zip(*self._session.gather(mine), strict=True)]

    def _once(self) -> float:
        # Alternating signs keep residuals small.
        for values in self._values:
            np.negative(values, out=values)
        self._session.gather(None)
        engine, start = self._session.engine, time.process_time()
        given = zip(self._handles, self._values, self._outputs, strict=True)
        operations = [engine.submit(handle, values, output) for handle, values, output in given]
        for operation in operations:
            engine.wait(operation)
        # Other ranks may still use this rank's processors.
        self._session.gather(None)
        return time.process_time() - start

    def _switch_to(self, codec: str, topology: str, partitions: int) -> None:
        specs = self._specs(codec, topology, partitions)
        agreed = self._session.engine.agree_anew(self._session.numbered("switch"), self._handles, specs)
        self._handles = [handle for handle, _ in agreed]

    def end(self) -> None:
        """Frees the memory of the codecs."""
        self._switch_to(RAW, "ps", 0)
