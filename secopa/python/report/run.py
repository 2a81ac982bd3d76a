# SPDX-License-Identifier: Apache-2.0
"""A traced job: the steps of its trace, and the decisions of its plan beside the measured times."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from hipress.secopa.plan.choice import RAW
from hipress.secopa.plan.plan import Decision, Plan
from hipress.secopa.profile.profile import Profile
from hipress.secopa.report.shares import Shares, shares_of
from hipress.secopa.report.steps import Step, gradient_seconds, settled, training_steps, typical
from hipress.secopa.report.trace import Trace
from hipress.secopa.report.traffic import Traffic, total, traffic_of


@dataclass(frozen=True)
class Outcome:
    """The measurements of a synchronised tensor: a gradient or a group."""

    label: str
    decisions: tuple[Decision, ...]
    """The decisions of its gradients; empty if there is no plan or the plan does not name it."""
    measured_s: float | None
    """The measured time; None if the trace does not show the tensor."""
    traffic: Traffic | None

    @property
    def predicted_s(self) -> float | None:
        return self.decisions[0].predicted_s if self.decisions else None

    traced_codec: str | None = None
    """The codec that the trace names."""

    @property
    def codec(self) -> str | None:
        return self.decisions[0].codec if self.decisions else self.traced_codec


@dataclass(frozen=True)
class Run:
    """A trace, with the plan and the profile of the job if they are known."""

    trace: Trace
    plan: Plan | None = None
    profile: Profile | None = None

    @cached_property
    def steps(self) -> list[Step]:
        """The steps without the first one, see settled(). Raises InvalidArgument if the trace has none."""
        return settled(training_steps(self.trace))

    @cached_property
    def step(self) -> Step:
        """A step of median duration."""
        return typical(self.steps)

    @cached_property
    def step_s(self) -> float:
        return statistics.median(step.seconds for step in self.steps)

    @cached_property
    def shares(self) -> Shares:
        return shares_of(self.step)

    @cached_property
    def traffic(self) -> Traffic:
        """The traffic of all gradients in the typical step."""
        return total(self._traffic)

    @cached_property
    def _traffic(self) -> dict[str, Traffic]:
        return traffic_of(self.step)

    @cached_property
    def outcomes(self) -> list[Outcome]:
        """The outcomes in the order of the plan, then of the tensors that the plan does not name."""
        seconds = gradient_seconds(self.steps)
        shown: list[Outcome] = []
        for label, tensor, decisions in planned_tensors(self.plan, list(seconds)):
            shown.append(Outcome(label, decisions, seconds.pop(tensor, None), self._traffic.get(tensor)))
        codecs = codecs_of(self.step)
        shown += [
            Outcome(tensor, (), one, self._traffic.get(tensor), codecs.get(tensor)) for tensor, one in seconds.items()
        ]
        return shown


def codecs_of(step: Step) -> dict[str, str]:
    """The codec of each tensor by name, if the trace names it. A tensor may have uncompressed partitions beside
    encoded ones."""
    codecs: dict[str, str] = {}
    for span in step.spans:
        if span.codec and codecs.get(span.tensor, RAW) == RAW:
            codecs[span.tensor] = span.codec
    return codecs


def planned_tensors(plan: Plan | None, tensors: Sequence[str]) -> list[tuple[str, str, tuple[Decision, ...]]]:
    """For each gradient or group of the plan: its label, its name among the trace's `tensors` ("" if it is not there),
    and its decisions."""
    found: list[tuple[str, str, tuple[Decision, ...]]] = []
    groups: dict[str, list[Decision]] = defaultdict(list)
    decisions = plan.decisions if plan is not None else ()
    for decision in decisions:
        if decision.group is not None:
            groups[decision.group].append(decision)
    # The core names a group's tensor "GROUP of MEMBERS".
    named = {group: next((one for one in tensors if one.startswith(f"{group} of ")), "") for group in groups}
    for decision in decisions:
        if decision.group is None:
            found.append((decision.name, decision.name, (decision,)))
        elif decision.group in groups:
            members = tuple(groups.pop(decision.group))
            found.append((f"{decision.group} ({len(members)} gradients)", named[decision.group], members))
    return found
