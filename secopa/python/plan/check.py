# SPDX-License-Identifier: Apache-2.0
"""Checks that a plan fits a model, a number of ranks, and the codecs and topologies of this build of HiPress."""

from __future__ import annotations

from hipress._library import load_core
from hipress.errors import InvalidArgument
from hipress.secopa.plan.plan import Plan
from hipress.secopa.profile.gradients import GradientSet


def check_plan(plan: Plan, gradients: GradientSet, world: int | None = None) -> None:
    """Raises InvalidArgument with the first difference. `world`: number of ranks; None: the plan's own number."""
    plan.check(gradients)
    if world is not None and world != plan.world:
        raise InvalidArgument(f"the plan is for {plan.world} ranks, not {world}: make it anew")
    core = load_core()
    known: set[tuple[str, str]] = set()
    for decision in plan.decisions:
        if (decision.codec, decision.topology) in known:
            continue
        known.add((decision.codec, decision.topology))
        try:
            core.create_codec(decision.codec)
            # The graph of one rank is enough to check the topology's name.
            core.build_topology(decision.topology, rank=0, world_size=1, partitions=1)
        except InvalidArgument as error:
            raise InvalidArgument(f"the plan's '{decision.name}': {error}") from None
