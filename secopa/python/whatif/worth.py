# SPDX-License-Identifier: Apache-2.0
"""Finds out whether compression pays on the cluster of a profile, with every codec and with the best plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from hipress.errors import InvalidArgument
from hipress.secopa.models.cost_model import StepPrediction
from hipress.secopa.models.suitability import takes
from hipress.secopa.models.timeline import TimelineModel
from hipress.secopa.plan.choice import RAW
from hipress.secopa.plan.plan import Plan
from hipress.secopa.planners.options import PlanningOptions
from hipress.secopa.planners.planner import make_plan, topologies_for, usable_codecs
from hipress.secopa.profile.gradients import GradientSet
from hipress.secopa.profile.profile import Profile
from hipress.secopa.whatif.scenario import Scenario
from hipress.secopa.whatif.simulate import UniformChoice, pointless_from

#: The name of the plan's row.
PLAN = "plan"
#: A smaller share of a step is within the error of predictions: the planner asks for as much before it compresses.
CERTAIN = PlanningOptions.min_gain


class Verdict(str, Enum):
    """A step with compression, compared with the shortest uncompressed step."""

    PAYS = "pays"
    LOSES = "loses"
    NEITHER = "no difference"
    """The difference between the steps is within the error of predictions."""
    DECLINES = "compresses nothing"
    """A plan that compresses no gradient; it may group gradients and choose topologies."""
    BASE = "-"
    """The uncompressed step itself."""


@dataclass(frozen=True)
class Row:
    """A codec for all gradients with the topology that suits it best, or the plan."""

    name: str
    """The codec's text, or PLAN."""
    topology: str
    """The topology; for a plan, all its topologies."""
    step_s: float
    """Predicted seconds from the start of backward until every rank has every average."""
    times_as_fast: float
    """The uncompressed step divided by this one."""
    sent_bytes: float
    """Bytes that the busiest rank sends to other hosts."""
    cpu_s: float
    """Processor seconds of the busiest rank for synchronisation."""
    relative_error: float | None
    """The error of one encoding without error feedback; None if the row is uncompressed or it was not measured."""
    verdict: Verdict
    evidence: str = ""
    """What trainings have shown of the codec for the kind of optimizer; empty: nobody asked."""


@dataclass(frozen=True)
class Allowed:
    """What may be recommended for an optimizer."""

    kind: str
    """As in hipress.secopa.evidence."""
    codecs: Collection[str]
    levels: Mapping[str, str]
    """What the evidence says, by codec."""


@dataclass(frozen=True)
class Worth:
    """The answer for one model on one cluster."""

    model: str
    machine: str
    ranks: int
    hosts: int
    backward_s: float
    """0 if the duration of backward is not known; then no transfer is hidden."""
    rows: tuple[Row, ...]
    """Uncompressed first, then the codecs of the profile, then the plan."""
    plan: Plan
    allowed: Allowed | None
    """None: every codec may be recommended."""
    pointless_from_bytes_per_s: float | None
    """Rate of the slowest links with which no codec saves more than POINTLESS of a step; None if there is none or the
    ranks share one host."""

    @property
    def uncompressed(self) -> Row:
        return self.rows[0]

    @property
    def best_codec(self) -> Row | None:
        """The codec with the shortest step; None if the profile has none that may be recommended."""
        rows = (row for row in self.rows[1:-1] if self.allowed is None or row.name in self.allowed.codecs)
        return min(rows, key=lambda row: row.step_s, default=None)

    @property
    def planned(self) -> Row:
        return self.rows[-1]


def worth_of(
    profile: Profile,
    gradients: GradientSet,
    stage: Callable[[str], None] = lambda _what: None,
    allowed: Allowed | None = None,
) -> Worth:
    """Simulates every codec with every topology on the profile's ranks, and plans with the allowed ones.

    `stage` is called with the name of each computation before it. Raises InvalidArgument for a profile with fewer
    than two ranks.
    """
    world = len(profile.ranks)
    if world < 2:
        raise InvalidArgument(f"a profile of {world} ranks: one rank averages nothing; measure with two or more")
    model = TimelineModel(profile, world)
    topologies = topologies_for(model)
    rows: list[Row] = []
    codecs_here = usable_codecs(gradients, model, PlanningOptions())
    for codec in (RAW, *codecs_here):
        stage(f"simulating {codec}")
        row = _row(model, gradients, codec, topologies, rows[0].step_s if rows else None)
        rows.append(row if allowed is None else replace(row, evidence=allowed.levels.get(codec, "")))
    stage("planning")
    usable = None if allowed is None else tuple(codec for codec in codecs_here if codec in allowed.codecs)
    plan = make_plan(gradients, model, PlanningOptions(codecs=usable))
    # The planner leaves out compression that saves little, so its plan may be an uncompressed one.
    step = model.step(gradients, plan.choices())
    codecs = Counter(one.codec for one in plan.decisions if one.choice.compressed)
    rows.append(
        Row(
            name=PLAN,
            topology=", ".join(sorted({one.topology for one in plan.decisions})),
            step_s=step.step_s,
            times_as_fast=rows[0].step_s / step.step_s,
            sent_bytes=max(step.sent_bytes),
            cpu_s=max(step.cpu_s),
            relative_error=max((profile.costs(one).relative_error or 0.0 for one in codecs), default=None),
            verdict=_verdict(step.step_s, rows[0].step_s) if codecs else Verdict.DECLINES,
        )
    )
    hosts = Counter(place.host for place in profile.ranks)
    return Worth(
        model=gradients.model or "gradients",
        machine=profile.machine.text,
        ranks=world,
        hosts=len(hosts),
        backward_s=gradients.backward_s,
        rows=tuple(rows),
        plan=plan,
        allowed=allowed,
        pointless_from_bytes_per_s=_pointless(profile, gradients, codecs_here, topologies, hosts, stage),
    )


def _row(
    model: TimelineModel, gradients: GradientSet, codec: str, topologies: Sequence[str], base_s: float | None
) -> Row:
    steps: dict[str, StepPrediction] = {
        topology: model.step(gradients, UniformChoice(codec, topology).choices(gradients, model.profile, model.world))
        for topology in topologies
        if takes(model.profile, codec, topology)
    }
    topology, step = min(steps.items(), key=lambda item: item[1].step_s)
    return Row(
        name=codec,
        topology=topology,
        step_s=step.step_s,
        times_as_fast=1.0 if base_s is None else base_s / step.step_s,
        sent_bytes=max(step.sent_bytes),
        cpu_s=max(step.cpu_s),
        relative_error=None if codec == RAW else model.profile.costs(codec).relative_error,
        verdict=Verdict.BASE if base_s is None else _verdict(step.step_s, base_s),
    )


def _verdict(step_s: float, base_s: float) -> Verdict:
    if step_s < base_s * (1 - CERTAIN):
        return Verdict.PAYS
    return Verdict.LOSES if step_s > base_s * (1 + CERTAIN) else Verdict.NEITHER


def _pointless(
    profile: Profile,
    gradients: GradientSet,
    codecs: Sequence[str],
    topologies: Sequence[str],
    hosts: Counter[str],
    stage: Callable[[str], None],
) -> float | None:
    """The rate of pointless_from(). None if there is only one host, if hosts have different numbers of ranks, or if the
    profile has no codec.
    """
    if len(hosts) == 1 or len(set(hosts.values())) > 1 or not codecs:
        return None
    stage("searching the rate of links from which on compression saves nothing")
    one_machine = len({place.machine for place in profile.ranks}) == 1
    scenario = Scenario(len(hosts), hosts.most_common(1)[0][1], one_machine=one_machine)
    return pointless_from(profile, gradients, scenario, codecs, topologies)
