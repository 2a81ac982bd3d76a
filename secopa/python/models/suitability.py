# SPDX-License-Identifier: Apache-2.0
"""Which codecs a job can use: the rules by which the engine refuses a codec (core/casync/graph/tensor_spec.cc)."""

from __future__ import annotations

from collections.abc import Iterable

from hipress._library import load_core
from hipress.secopa.plan.choice import RAW
from hipress.secopa.profile.gradients import Gradient
from hipress.secopa.profile.linked import LinkedCosts
from hipress.secopa.profile.profile import CodecCosts, Profile


def objection(profile: Profile, codec: str, world: int, gradients: Iterable[Gradient]) -> str | None:
    """Why `world` ranks cannot use the codec for these gradients; None if they can. Raises InvalidArgument for a codec
    that the profile lacks."""
    costs = profile.costs(codec)
    if not isinstance(costs, LinkedCosts):
        return None
    if costs.summed is not None and world > costs.summed.most_ranks:
        return (
            f"codec '{codec}' adds levels in 8 bits, which holds the sum of {costs.summed.most_ranks} ranks at most, "
            f"and there are {world}: choose options with lower levels, or another codec"
        )
    shapeless = next((one.name for one in gradients if one.shape is None), None)
    if costs.factors is not None and shapeless is not None:
        return (
            f"codec '{codec}' needs the shapes of gradients, and the shape of '{shapeless}' is not known: give a JSON "
            "file of `hipress plan gradients`, or another codec"
        )
    return None


def suits(costs: CodecCosts | LinkedCosts, topology: str, grouped: bool) -> bool:
    """Whether a tensor can have the codec with this topology. `grouped`: it is a group of gradients."""
    if isinstance(costs, LinkedCosts):
        return not grouped
    if grouped and not costs.takes_groups:
        return False
    return not costs.merges_decoded or bool(load_core().is_direct(topology))


def takes(profile: Profile, codec: str, topology: str) -> bool:
    """suits() for a gradient alone and any codec, also none."""
    return codec == RAW or suits(profile.costs(codec), topology, grouped=False)
