# SPDX-License-Identifier: Apache-2.0
"""What is known of a run, put together: its steps, and the plan's decisions beside what was measured of them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from hipress.secopa.plan import Decision, Plan
from hipress.secopa.profile import Profile
from hipress.secopa.report.shares import Shares, shares_of
from hipress.secopa.report.steps import Step, gradient_seconds, settled, training_steps, typical
from hipress.secopa.report.trace import Trace
from hipress.secopa.report.traffic import Traffic, total, traffic_of


@dataclass(frozen=True)
class Outcome:
    """What travelled as one: a gradient, or a group of them."""

    label: str
    decisions: tuple[Decision, ...]
    """Empty: the plan does not name it, or there is none."""
    measured_s: float | None
    """None: the trace does not show it."""
    traffic: Traffic | None

    @property
    def predicted_s(self) -> float | None:
        return self.decisions[0].predicted_s if self.decisions else None

    @property
    def codec(self) -> str | None:
        return self.decisions[0].codec if self.decisions else None


@dataclass(frozen=True)
class Run:
    """A trace, and what else there is."""

    trace: Trace
    plan: Plan | None = None
    profile: Profile | None = None

    @cached_property
    def steps(self) -> list[Step]:
        """Those that count. Raises InvalidArgument if the trace shows none."""
        return settled(training_steps(self.trace))

    @cached_property
    def step(self) -> Step:
        """A typical one."""
        return typical(self.steps)

    @cached_property
    def step_s(self) -> float:
        return statistics.median(step.seconds for step in self.steps)

    @cached_property
    def shares(self) -> Shares:
        return shares_of(self.step)

    @cached_property
    def traffic(self) -> Traffic:
        """Of all gradients, in the typical step."""
        return total(self._traffic)

    @cached_property
    def _traffic(self) -> dict[str, Traffic]:
        return traffic_of(self.step)

    @cached_property
    def outcomes(self) -> list[Outcome]:
        """In the order of the plan; then what it does not name."""
        seconds = gradient_seconds(self.steps)
        shown: list[Outcome] = []
        for label, tensor, decisions in self._planned(list(seconds)):
            shown.append(Outcome(label, decisions, seconds.pop(tensor, None), self._traffic.get(tensor)))
        shown += [Outcome(tensor, (), one, self._traffic.get(tensor)) for tensor, one in seconds.items()]
        return shown

    def _planned(self, tensors: Sequence[str]) -> list[tuple[str, str, tuple[Decision, ...]]]:
        """How it is called, as which tensor of the trace it travelled, and what was decided."""
        found: list[tuple[str, str, tuple[Decision, ...]]] = []
        grouped: set[str] = set()
        decisions = self.plan.decisions if self.plan is not None else ()
        for decision in decisions:
            if decision.group is None:
                found.append((decision.name, decision.name, (decision,)))
            elif decision.group not in grouped:
                grouped.add(decision.group)
                members = tuple(one for one in decisions if one.group == decision.group)
                # The core calls a group's tensor by its name and its members'.
                tensor = next((name for name in tensors if name.startswith(f"{decision.group} of ")), "")
                found.append((f"{decision.group} ({len(members)} gradients)", tensor, members))
        return found
