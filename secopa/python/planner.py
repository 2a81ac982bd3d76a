# SPDX-License-Identifier: Apache-2.0
"""Planners by name: what makes a plan of gradients, a cost model and limits."""

from __future__ import annotations

from dataclasses import replace

from hipress.errors import InvalidArgument
from hipress.secopa.cost_model import CostModel
from hipress.secopa.decisions import plan_of
from hipress.secopa.gradients import GradientSet
from hipress.secopa.independent import plan_independently
from hipress.secopa.justify import justify
from hipress.secopa.models.serial import SerialModel
from hipress.secopa.plan import Plan
from hipress.secopa.planning_options import PlanningOptions
from hipress.secopa.search import search
from hipress.secopa.trials import Trials

PLANNERS = ("search", "independent")


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
    if planner == "independent":
        if not isinstance(model, SerialModel):
            raise InvalidArgument(f"planner independent takes the models paper and released, not {model.name}")
        return plan_independently(gradients, model, options)
    if planner != "search":
        raise InvalidArgument(f"no planner '{planner}'; there are: {', '.join(PLANNERS)}")
    trials = Trials(gradients, model, options)
    findings = search(trials)
    justified = justify(trials, findings)
    asked = options.max_evaluations - trials.left
    made_by = f"search, with the model {model.name}, after {asked} predictions"
    return plan_of(gradients, model, justified.found, justified.reasons, findings.raw, made_by)


def topologies_for(model: CostModel) -> tuple[str, ...]:
    """Those that may be worth trying."""
    if isinstance(model, SerialModel):
        return model.TOPOLOGIES
    hosts = {place.host for place in model.profile.places(model.world)}
    shared = ("hierarchical",) if 1 < len(hosts) < model.world else ()
    # Everybody's bytes to everybody: few ranks can pay that.
    everybody = ("allgather",) if model.world <= 8 else ()
    return (*shared, "ps", "ring", *everybody)
