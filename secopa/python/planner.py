# SPDX-License-Identifier: Apache-2.0
"""Planners by name: what makes a plan of gradients, a cost model and limits."""

from __future__ import annotations

from dataclasses import replace

from hipress.errors import InvalidArgument
from hipress.secopa.cost_model import CostModel
from hipress.secopa.decisions import plan_of
from hipress.secopa.gradients import GradientSet
from hipress.secopa.independent import plan_independently
from hipress.secopa.justify import Justified, all_as_it_is, justify
from hipress.secopa.mergecomp import merge
from hipress.secopa.models.serial import SerialModel
from hipress.secopa.plan import Plan
from hipress.secopa.planning_options import PlanningOptions
from hipress.secopa.search import best_uncompressed, search
from hipress.secopa.trials import Trials

PLANNERS = ("search", "independent", "mergecomp")


def make_plan(
    gradients: GradientSet, model: CostModel, options: PlanningOptions | None = None, planner: str | None = None
) -> Plan:
    """The same for the same arguments. `planner`: one of PLANNERS; None: the one that suits the model.

    Raises InvalidArgument if codecs, topologies or limits are not what profile, model and planner know.
    """
    options = PlanningOptions() if options is None else options
    if not options.topologies:
        options = replace(options, topologies=topologies_for(model))
    if planner is None:
        planner = "independent" if isinstance(model, SerialModel) else "search"
    if planner not in PLANNERS:
        raise InvalidArgument(f"no planner '{planner}'; there are: {', '.join(PLANNERS)}")
    if planner != "independent":
        return _searched(gradients, model, options, merged=planner == "mergecomp")
    if not isinstance(model, SerialModel):
        raise InvalidArgument(f"planner independent takes the models paper and released, not {model.name}")
    return plan_independently(gradients, model, options)


def topologies_for(model: CostModel) -> tuple[str, ...]:
    """Those that may be worth trying."""
    if isinstance(model, SerialModel):
        return model.TOPOLOGIES
    hosts = {place.host for place in model.profile.places(model.world)}
    shared = ("hierarchical",) if 1 < len(hosts) < model.world else ()
    # Everybody's bytes to everybody: few ranks can pay that.
    everybody = ("allgather",) if model.world <= 8 else ()
    return (*shared, "ps", "ring", *everybody)


def _searched(gradients: GradientSet, model: CostModel, options: PlanningOptions, merged: bool) -> Plan:
    """What is hidden under backward only just is not hidden if sending takes longer than predicted. So the search is
    for a step with a shorter backward; what the plan then says is of the step as it is."""
    hurried = Trials(gradients.hurried(1 / (1 + options.margin)), model, options, part=0.8)
    expected = Trials(gradients, model, options, part=0.2)
    raw, rejected = best_uncompressed(expected), None
    if merged:
        found = merge(hurried)
        justified = Justified(found, [_merged(len(unit.members), len(found.units)) for unit in found.units])
    else:
        findings = search(hurried)
        raw = expected.shorter(raw, findings.raw)
        justified = justify(hurried, expected, findings.best)
        rejected = findings.rejected
    best = expected.found(justified.found.units, justified.found.choices)
    if best is None or not best.compressed or best.step.step_s > raw.step.step_s * (1 - options.min_gain):
        if best is not None and best.compressed:
            rejected = best
        elif best is not None:
            raw = expected.shorter(raw, best)
        best = raw
        justified = Justified(raw, all_as_it_is(options, raw, rejected))
    how = "merging" if merged else "search"
    made_by = f"{how}, with the model {model.name}, after {hurried.asked + expected.asked} predictions"
    return plan_of(gradients, model, best, justified.reasons, raw, made_by)


def _merged(members: int, units: int) -> str:
    return f"one of {members} gradients merged into one of {units} groups"
