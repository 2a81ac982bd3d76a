# SPDX-License-Identifier: Apache-2.0
"""plan="auto": measures during the first steps of a training, plans, and plans again when the steps' duration changes.

All ranks take the same actions after the same steps, because they decide from the measurements of all ranks:

    first steps      the ranks synchronise uncompressed gradients, and record release times and step times
    then             the ranks measure links and codecs, rank 0 makes a plan, and all ranks follow it
    every 10 steps   the ranks compare step times; if they left the usual range of this plan, links are measured again
"""

from __future__ import annotations

import json
import logging
import math
import re
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from hipress import _core
from hipress.options.travel import MIN_COMPRESS_BYTES
from hipress.secopa.models.registry import make_model
from hipress.secopa.online.agreed_plan import agreed_plan
from hipress.secopa.online.measure.codec_costs import SIZES
from hipress.secopa.online.measure.measured_profile import MeasureOptions, measure_profile
from hipress.secopa.online.measure.releases import ReleaseTimes
from hipress.secopa.online.step_watch import StepWatch
from hipress.secopa.plan.plan import Plan
from hipress.secopa.planners.options import PlanningOptions
from hipress.secopa.planners.planner import make_plan
from hipress.secopa.profile import quantities
from hipress.secopa.profile.gradients import Gradient, GradientSet
from hipress.secopa.profile.profile import Profile

_log = logging.getLogger("hipress.plan")


class Tensor(Protocol):
    """A tensor of a TensorList."""

    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def count(self) -> int: ...
    @property
    def shape(self) -> str: ...
    @property
    def has_gradient(self) -> bool: ...
    @property
    def device(self) -> _core.Device | None: ...


class PlannedTensors(Protocol):
    """The tensors that follow a plan; a TensorList implements it."""

    @property
    def tensors(self) -> Sequence[Tensor]: ...
    def set_plan(self, plan: Plan | None) -> None: ...


@dataclass(frozen=True)
class AutomaticOptions:
    """The options of automatic planning; they are the same on all ranks."""

    codecs: tuple[str, ...] = ()
    """Codecs that a plan may use besides none."""
    codecs_for: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Codecs of matching gradients, see PlanningOptions."""
    min_compress_bytes: int = MIN_COMPRESS_BYTES
    interval: int = 10
    """Steps between two comparisons of step times, and steps before the first plan."""
    profile_s: float = 10.0
    """Seconds of the measurement before the first plan."""
    links_s: float = 3.0
    """Seconds of later measurements, which measure only links."""
    slower: float = 1.03
    """If a plan replaces uncompressed steps, and its steps take more than this multiple of their time, the ranks give
    the plan up."""
    compute_threads: int = 1
    """Compute threads of each rank."""
    model: str = "timeline"


class AutomaticPlanning:
    """Automatic planning as the module describes it. All ranks create one, and call its methods in the same steps.

    Rank 0 calls `may_group` before it plans: `may_group` returns whether every step has every gradient, because a group
    waits for all its members. `settle` returns when no operation is in flight; each rank calls it before measurements
    and changes.
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
        # While a plan is on trial: the duration of the uncompressed steps before it, and the plan they followed.
        self._uncompressed_s: float | None = None
        self._uncompressed: Plan | None = None

    @property
    def plan(self) -> Plan | None:
        """The plan that the tensors follow; None before the first plan, or after the ranks gave up the first plan."""
        return self._plan

    @property
    def profile(self) -> Profile | None:
        """The latest measurements; None before the first."""
        return self._profile

    def released(self, index: int) -> None:
        """Notes that backward has completed the tensor at `index`."""
        self._releases.released(self._tensors.tensors[index].name)

    def backward_ended(self) -> None:
        """Notes that backward has ended."""
        self._releases.ended()

    def step_ended(self, seconds: float) -> None:
        """Notes that a step has ended after `seconds`. This call may measure and change the plan."""
        self._steps += 1
        if not self._watch.add(seconds):
            return
        self._settle()
        # Only tensors on the host can be grouped, and ranks may hold the same tensor on different devices.
        on_host = all(each.device is None for each in self._tensors.tensors)
        gathered = self._engine.allgather("step seconds", json.dumps([self._watch.take(), on_host]).encode())
        taken = [json.loads(each) for each in gathered]
        median_s = statistics.median(seconds for seconds, _ in taken)
        self._all_on_host = all(is_on_host for _, is_on_host in taken)
        if self._profile is None:
            for_some = (codec for _, codecs in self._options.codecs_for for codec in codecs)
            codecs = tuple(dict.fromkeys((*self._options.codecs, *for_some)))
            self._profile = self._measured(codecs, self._options.profile_s)
            self._follow(median_s, "steps so far took")
        elif self._uncompressed_s is not None and self._is_slower(median_s):
            self._give_up(median_s)
        elif self._watch.has_left(median_s):
            assert self._watch.usual_s is not None
            fresh = self._measured((), self._options.links_s)
            self._profile = fresh.model_copy(update={"codecs": self._profile.codecs, "linked": self._profile.linked})
            self._follow(median_s, f"a step took {quantities.seconds(self._watch.usual_s)} before, now")
        else:
            self._uncompressed_s = None  # the plan passed its trial
            self._releases = self._new_releases()

    def _is_slower(self, median_s: float) -> bool:
        assert self._uncompressed_s is not None
        return self._plan is not None and median_s > self._uncompressed_s * self._options.slower

    def _give_up(self, median_s: float) -> None:
        assert self._uncompressed_s is not None
        self._say(
            f"the plan is given up: a step takes {quantities.seconds(median_s)} with it, "
            f"and took {quantities.seconds(self._uncompressed_s)} without"
        )
        self._change(self._uncompressed)

    def _follow(self, median_s: float, measured: str) -> None:
        profile, before = self._profile, self._plan
        assert profile is not None
        plan = agreed_plan(self._engine, lambda: self._made(profile))
        self._change(plan)
        same = before is not None and before.specs() == plan.specs()
        if not same and not _compresses(before):
            # The new plan is on trial: its steps must not be slower than the uncompressed steps before it.
            self._uncompressed_s, self._uncompressed = median_s, before
        self._say(f"{'the plan stays' if same else _told(plan)}; {measured} {quantities.seconds(median_s)}")

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
        """The plan for a profile; rank 0 calls this."""
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
        gradients = (
            Gradient(name=each.name, elements=each.count, dtype=each.dtype, shape=_dimensions(each))
            for each in synchronized
        )
        return GradientSet(gradients=tuple(gradients))

    def _new_releases(self) -> ReleaseTimes:
        return ReleaseTimes([each.name for each in self._tensors.tensors])

    def _say(self, what: str) -> None:
        if self._engine.rank == 0:
            _log.info("step %d: %s", self._steps, what)


def _dimensions(tensor: Tensor) -> tuple[int, ...] | None:
    """The dimensions in the tensor's text, such as "[3, 4]", which a memory order may follow."""
    shape = tuple(int(size) for size in re.findall(r"[0-9]+", tensor.shape.partition("]")[0]))
    return shape if math.prod(shape) == tensor.count else None


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
        text += (
            f", and predicts {quantities.seconds(plan.predicted_step_s)} from the first gradient to the last average"
        )
    if plan.predicted_uncompressed_step_s is not None:
        text += f" ({quantities.seconds(plan.predicted_uncompressed_step_s)} uncompressed)"
    return text
