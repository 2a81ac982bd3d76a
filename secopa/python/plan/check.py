# SPDX-License-Identifier: Apache-2.0
"""Checks that a plan fits a model, a number of ranks, and the codecs and topologies of this build of HiPress.

The engine refuses the same plans (core/casync/graph/tensor_spec.cc), but only on the ranks of a job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hipress._library import load_core
from hipress.errors import InvalidArgument
from hipress.secopa.plan.plan import Decision, Plan
from hipress.secopa.profile.gradients import GradientSet

if TYPE_CHECKING:
    from hipress import _core


def check_plan(plan: Plan, gradients: GradientSet, world: int | None = None) -> None:
    """Raises InvalidArgument with the first difference. `world`: number of ranks; None: the plan's own number."""
    plan.check(gradients)
    if world is not None and world != plan.world:
        raise InvalidArgument(f"the plan is for {plan.world} ranks, not {world}: make it anew")
    core = load_core()
    known: set[tuple[str, str, bool]] = set()
    for decision in plan.decisions:
        way = (decision.codec, decision.topology, decision.group is not None)
        if way in known:
            continue
        known.add(way)
        try:
            _check_codec(core.create_codec(decision.codec), decision, plan.world)
            # The graph of one rank is enough to check the topology's name.
            core.build_topology(decision.topology, rank=0, world_size=1, partitions=1)
        except InvalidArgument as error:
            raise InvalidArgument(f"the plan's '{decision.name}': {error}") from None


def _check_codec(codec: _core.Codec, decision: Decision, world: int) -> None:
    linked = codec.low_rank is not None or codec.summed is not None
    if linked and decision.group is not None:
        raise InvalidArgument(
            f"codec {decision.codec} sends each tensor alone, and the plan has it in group '{decision.group}'"
        )
    short = next((state for state in codec.states if codec.state_block(state) != 1), None)
    if short is not None and decision.group is not None:
        raise InvalidArgument(
            f"codec {decision.codec} keeps one value of '{short}' for each {codec.state_block(short)} elements, and "
            f"the plan has the tensor in group '{decision.group}'"
        )
    if codec.summed is not None and world > codec.summed[2]:
        raise InvalidArgument(
            f"codec {decision.codec} adds levels in 8 bits, which holds the sum of {codec.summed[2]} ranks at most, "
            f"and the plan is for {world}"
        )
    if codec.merges_decoded and not load_core().is_direct(decision.topology):
        raise InvalidArgument(
            f"codec {decision.codec} merges every rank's values as decoded from its message, and topology "
            f"{decision.topology} sends sums of some ranks"
        )
