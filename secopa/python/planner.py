# SPDX-License-Identifier: Apache-2.0
"""Planners by name: what makes a plan of gradients, a cost model and limits."""

from __future__ import annotations

from hipress.errors import InvalidArgument
from hipress.secopa.cost_model import CostModel
from hipress.secopa.gradients import GradientSet
from hipress.secopa.independent import plan_independently
from hipress.secopa.models.serial import SerialModel
from hipress.secopa.plan import Plan
from hipress.secopa.planning_options import PlanningOptions

PLANNERS = ("independent",)


def make_plan(
    gradients: GradientSet, model: CostModel, options: PlanningOptions | None = None, planner: str | None = None
) -> Plan:
    """The same for the same arguments. `planner`: one of PLANNERS; None: the one that suits the model.

    Raises InvalidArgument if codecs, topologies or limits are not what profile, model and planner know.
    """
    options = PlanningOptions() if options is None else options
    if planner is not None and planner not in PLANNERS:
        raise InvalidArgument(f"no planner '{planner}'; there are: {', '.join(PLANNERS)}")
    if not isinstance(model, SerialModel):
        raise InvalidArgument(f"planner independent takes the models paper and released, not {model.name}")
    return plan_independently(gradients, model, options)
