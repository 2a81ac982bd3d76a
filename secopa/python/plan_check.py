# SPDX-License-Identifier: Apache-2.0
"""Whether a plan can be used: with this model, on so many ranks, by this build of HiPress."""

from __future__ import annotations

from hipress._library import load_core
from hipress.errors import InvalidArgument
from hipress.secopa.gradients import GradientSet
from hipress.secopa.plan import Plan


def check_plan(plan: Plan, gradients: GradientSet, world: int | None = None) -> None:
    """Raises InvalidArgument with the first thing that does not fit. `world`: ranks; None: as many as it is for."""
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
            # As it would be built, for one rank: that checks the name.
            core.build_topology(decision.topology, rank=0, world_size=1, partitions=1)
        except InvalidArgument as error:
            raise InvalidArgument(f"the plan's '{decision.name}': {error}") from None
