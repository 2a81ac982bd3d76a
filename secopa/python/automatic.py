# SPDX-License-Identifier: Apache-2.0
"""plan="auto": measures in the first steps of a training, plans, and plans anew when steps take something else.

All ranks do the same after the same steps, decided from what all of them have measured:

    first steps      gradients travel as they are; release times and step times are observed
    then             links and codecs are measured, rank 0 plans, all ranks follow the plan
    every 10 steps   ranks compare step times; if they have left what is usual with this plan, links are measured anew
"""

from __future__ import annotations

import json
import logging
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from hipress import _core
from hipress.secopa.agreed_plan import agreed_plan
from hipress.secopa.gradients import Gradient, GradientSet
from hipress.secopa.measure.codec_costs import SIZES
from hipress.secopa.measure.measured_profile import MeasureOptions, measure_profile
from hipress.secopa.measure.releases import ReleaseTimes
from hipress.secopa.models.by_name import make_model
from hipress.secopa.plan import Plan
from hipress.secopa.planner import make_plan
from hipress.secopa.planning_options import PlanningOptions
from hipress.secopa.profile import Profile
from hipress.secopa.step_watch import StepWatch

_log = logging.getLogger("hipress.plan")


class Tensor(Protocol):
    """Of a TensorList."""

    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def count(self) -> int: ...
    @property
    def has_gradient(self) -> bool: ...
    @property
    def device(self) -> _core.Device | None: ...


class PlannedTensors(Protocol):
    """What follows a plan: a TensorList."""

    @property
    def tensors(self) -> Sequence[Tensor]: ...
    def set_plan(self, plan: Plan | None) -> None: ...


@dataclass(frozen=True)
class AutomaticOptions:
    """Alike on all ranks."""

    codecs: tuple[str, ...] = ()
    """That may be used beside none."""
    codecs_for: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """As in PlanningOptions."""
    min_compress_bytes: int = 4096
    interval: int = 10
    """Steps between two looks at what they take; so many are observed before the first plan, too."""
    profile_s: float = 10.0
    """What measuring takes before the first plan."""
    links_s: float = 3.0
    """And before the others, which measure links only."""
    slower: float = 1.03
    """A plan with which steps take so many times as long as uncompressed is given up, if that is what it replaced."""
    compute_threads: int = 1
    """Of each rank."""
    model: str = "timeline"


class AutomaticPlanning:
    """See the module. All ranks make one, and call its methods in the same steps.

    `may_group` tells rank 0, whenever it plans, whether all gradients come in each step: a group waits for its members.
    `settle` returns when nothing is in flight; it is called before anything is measured or changed.
    """

    def __init__(
        self,
        engine: _core.Engine,
        tensors: PlannedTensors,
        options: AutomaticOptions,
        may_group: Callable[[], bool] = lambda: True,
        settle: Callable[[], None] = lambda: None,
    ) -> None:
        self._engine = engine
        self._tensors = tensors
        self._options = options
        self._may_group = may_group
        self._settle = settle
        self._steps = 0
        self._all_on_host = True
        self._releases = self._new_releases()
        self._watch = StepWatch(options.interval)
        self._profile: Profile | None = None
        self._plan: Plan | None = None
        # While a plan is on trial: what steps took before, without compression, and what they followed then.
        self._uncompressed_s: float | None = None
        self._uncompressed: Plan | None = None

    @property
    def plan(self) -> Plan | None:
        """That tensors follow now; None: there is none yet, or the first was given up."""
        return self._plan

    @property
    def profile(self) -> Profile | None:
        """What was measured last; None: nothing yet."""
        return self._profile

    def released(self, index: int) -> None:
        """The tensor at `index` is complete, while backward goes on."""
        self._releases.released(self._tensors.tensors[index].name)

    def backward_ended(self) -> None:
        """Backward has computed everything."""
        self._releases.ended()

    def step_ended(self, seconds: float) -> None:
        """A step has taken so many seconds. May measure, and change the plan."""
        self._steps += 1
        if not self._watch.add(seconds):
            return
        self._settle()
        # Groups are for tensors on the host, and where they are is not the same on all ranks.
        on_host = all(each.device is None for each in self._tensors.tensors)
        gathered = self._engine.allgather("step seconds", json.dumps([self._watch.take(), on_host]).encode())
        taken = [json.loads(each) for each in gathered]
        median_s = statistics.median(seconds for seconds, _ in taken)
        self._all_on_host = all(is_on_host for _, is_on_host in taken)
        if self._profile is None:
            self._profile = self._measured(self._options.codecs, self._options.profile_s)
            self._follow(median_s, "measured so far")
        elif self._uncompressed_s is not None and self._is_slower(median_s):
            self._give_up(median_s)
        elif self._watch.has_left(median_s):
            assert self._watch.usual_s is not None
            fresh = self._measured((), self._options.links_s)
            self._profile = fresh.model_copy(update={"codecs": self._profile.codecs})
            self._follow(median_s, f"a step took {_ms(self._watch.usual_s)} before, now")
        else:
            self._uncompressed_s = None  # the trial was passed, or there is none
            self._releases = self._new_releases()

    def _is_slower(self, median_s: float) -> bool:
        assert self._uncompressed_s is not None
        return self._plan is not None and median_s > self._uncompressed_s * self._options.slower

    def _give_up(self, median_s: float) -> None:
        assert self._uncompressed_s is not None
        self._say(
            f"the plan is given up: a step takes {_ms(median_s)} with it, and took {_ms(self._uncompressed_s)} without"
        )
        self._change(self._uncompressed)

    def _follow(self, median_s: float, measured: str) -> None:
        profile, before = self._profile, self._plan
        assert profile is not None
        plan = agreed_plan(self._engine, lambda: self._made(profile))
        self._change(plan)
        same = before is not None and before.specs() == plan.specs()
        if not same and not _compresses(before):
            # What was sent as it was shows what the plan has to beat.
            self._uncompressed_s, self._uncompressed = median_s, before
        self._say(f"{'the plan stays' if same else _told(plan)}; {measured} {_ms(median_s)}")

    def _change(self, plan: Plan | None) -> None:
        self._tensors.set_plan(plan)
        self._plan = plan
        self._uncompressed_s = None
        self._watch = StepWatch(self._options.interval)
        self._releases = self._new_releases()

    def _measured(self, codecs: tuple[str, ...], seconds: float) -> Profile:
        gradients = self._releases.on(self._gradients())
        largest = max((gradient.elements for gradient in gradients.gradients), default=0)
        options = MeasureOptions(
            codecs=codecs,
            seconds=seconds,
            largest_elements=max(SIZES[0], min(SIZES[-1], largest)),
            compute_threads=self._options.compute_threads,
            made=f"in training, after step {self._steps}",
        )
        return measure_profile(self._engine, options, gradients)

    def _made(self, profile: Profile) -> Plan:
        """By rank 0."""
        assert profile.gradients is not None
        options = PlanningOptions(
            codecs=self._options.codecs,
            codecs_for=self._options.codecs_for,
            min_compress_bytes=self._options.min_compress_bytes,
            grouping=self._all_on_host and self._may_group(),
        )
        return make_plan(profile.gradients, make_model(self._options.model, profile, self._engine.world_size), options)

    def _gradients(self) -> GradientSet:
        synchronized = (each for each in self._tensors.tensors if each.has_gradient)
        gradients = (Gradient(name=each.name, elements=each.count, dtype=each.dtype) for each in synchronized)
        return GradientSet(gradients=tuple(gradients))

    def _new_releases(self) -> ReleaseTimes:
        return ReleaseTimes([each.name for each in self._tensors.tensors])

    def _say(self, what: str) -> None:
        if self._engine.rank == 0:
            _log.info("step %d: %s", self._steps, what)


def _compresses(plan: Plan | None) -> bool:
    return plan is not None and any(choice.compressed for choice in plan.choices())


def _told(plan: Plan) -> str:
    compressed = sum(choice.compressed for choice in plan.choices())
    groups = len({choice.group for choice in plan.choices() if choice.group is not None})
    codecs = ", ".join(sorted({choice.codec for choice in plan.choices() if choice.compressed}))
    text = f"a new plan compresses {compressed} of {len(plan.decisions)} gradients"
    text += f" ({codecs})" if codecs else ""
    text += f", has {groups} groups" if groups else ""
    if plan.predicted_step_s is not None:
        text += f", and predicts {_ms(plan.predicted_step_s)} from the first gradient to the last average"
    if plan.predicted_uncompressed_step_s is not None:
        text += f" ({_ms(plan.predicted_uncompressed_step_s)} uncompressed)"
    return text


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.3g} ms"
