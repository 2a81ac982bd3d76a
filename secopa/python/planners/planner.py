# SPDX-License-Identifier: Apache-2.0
"""The planners by name. A planner makes a plan from gradients, a cost model and options."""

from __future__ import annotations

from dataclasses import replace

from hipress.errors import InvalidArgument
from hipress.secopa.models.cost_model import CostModel
from hipress.secopa.models.serial import SerialModel
from hipress.secopa.models.suitability import objection
from hipress.secopa.plan.choice import RAW
from hipress.secopa.plan.plan import Plan
from hipress.secopa.planners.decisions import plan_of
from hipress.secopa.planners.independent import plan_independently
from hipress.secopa.planners.justify import Justified, justify, nothing_compressed
from hipress.secopa.planners.mergecomp import merge
from hipress.secopa.planners.options import PlanningOptions
from hipress.secopa.planners.search import best_uncompressed, search
from hipress.secopa.planners.trials import Trials
from hipress.secopa.profile.gradients import GradientSet

PLANNERS = ("search", "independent", "mergecomp")


def make_plan(
    gradients: GradientSet, model: CostModel, options: PlanningOptions | None = None, planner: str | None = None
) -> Plan:
    """Makes a plan; equal arguments give equal plans. `planner`: one of PLANNERS; None: the planner for this model.

    Raises InvalidArgument if the profile, the model or the planner does not know a codec, a topology or a limit.
    """
    options = PlanningOptions() if options is None else options
    if not options.topologies:
        options = replace(options, topologies=topologies_for(model))
    options = replace(options, codecs=usable_codecs(gradients, model, options))
    if planner is None:
        planner = "independent" if isinstance(model, SerialModel) else "search"
    if planner not in PLANNERS:
        raise InvalidArgument(f"no planner '{planner}'; there are: {', '.join(PLANNERS)}")
    if planner != "independent":
        return _searched(gradients, model, options, merged=planner == "mergecomp")
    if not isinstance(model, SerialModel):
        raise InvalidArgument(f"planner independent takes the models paper and released, not {model.name}")
    return plan_independently(gradients, model, options)


def usable_codecs(gradients: GradientSet, model: CostModel, options: PlanningOptions) -> tuple[str, ...]:
    """The codecs that a plan may use: those of `options`, or all that the model and the job can use.

    Raises InvalidArgument if they cannot use a codec that `options` names.
    """
    if options.codecs is None:
        everywhere = tuple(
            codec for codec in model.codecs if objection(model.profile, codec, model.world, gradients.gradients) is None
        )
    else:
        everywhere = options.codecs
    for codec in (*everywhere, *(codec for _, codecs in options.codecs_for for codec in codecs)):
        if codec == RAW:
            continue
        said = objection(model.profile, codec, model.world, gradients.gradients)
        if said is None and codec not in model.codecs:
            said = f"model {model.name} does not predict steps with codec '{codec}': use the model timeline"
        if said is not None:
            raise InvalidArgument(said)
    return everywhere


def topologies_for(model: CostModel) -> tuple[str, ...]:
    """The topologies that a planner tries by default."""
    if model.topologies:
        return model.topologies
    hosts = {place.host for place in model.profile.places(model.world)}
    shared = ("hierarchical",) if 1 < len(hosts) < model.world else ()
    # In an allgather each rank sends to all other ranks, which pays only for few ranks.
    few = ("allgather",) if model.world <= 8 else ()
    return (*shared, "ps", "ring", *few)


def _searched(gradients: GradientSet, model: CostModel, options: PlanningOptions, merged: bool) -> Plan:
    """Searches with a backward that is shorter than the measured one.

    A transfer that ends just before backward is no longer hidden if sending takes longer than predicted. The
    predictions in the plan are for the measured backward.
    """
    shortened = Trials(gradients.with_backward(gradients.backward_s / (1 + options.margin)), model, options, part=0.8)
    expected = Trials(gradients, model, options, part=0.2)
    raw, rejected = best_uncompressed(expected), None
    if merged:
        found = merge(shortened)
        justified = Justified(found, [_merged(len(unit.members), len(found.units)) for unit in found.units])
    else:
        findings = search(shortened)
        raw = expected.shorter(raw, findings.raw)
        justified = justify(shortened, expected, findings.best)
        rejected = findings.rejected
    best = expected.found(justified.found.units, justified.found.choices)
    if best is None or not best.compressed or best.step.step_s > raw.step.step_s * (1 - options.min_gain):
        if best is not None and best.compressed:
            rejected = best
        elif best is not None:
            raw = expected.shorter(raw, best)
        best = raw
        justified = Justified(raw, nothing_compressed(expected, raw, rejected))
    how = "merging" if merged else "search"
    made_by = f"{how}, with the model {model.name}, after {shortened.asked + expected.asked} predictions"
    return plan_of(gradients, model, best, justified.reasons, raw, made_by)


def _merged(members: int, units: int) -> str:
    return f"one of {members} gradients merged into one of {units} groups"
