# SPDX-License-Identifier: Apache-2.0
"""What a list of tensors must be before ranks agree on it, and what its codecs keep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from hipress._library import load_core
from hipress.errors import DuplicateName, InvalidArgument

if TYPE_CHECKING:
    from hipress.adapter.lists.description import TensorDescription
    from hipress.secopa.plan.plan import Plan


def check_unique(names: list[str]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise DuplicateName(f"two tensors are called '{name}'; give every tensor its own name")


def check_names(codec_for: Mapping[str, str], names: list[str]) -> None:
    unknown = sorted(set(codec_for) - set(names))
    if unknown:
        raise InvalidArgument(f"codec_for names '{unknown[0]}', which is not one of the {len(names)} tensors")


def check_plan(plan: Plan, tensors: Iterable[TensorDescription], world: int) -> None:
    from hipress.secopa.profile.gradients import Gradient, GradientSet

    if plan.world != world:
        raise InvalidArgument(f"the plan is for {plan.world} ranks, and this job has {world}: make it anew for {world}")
    named = plan.specs()
    needed = [each for each in tensors if each.has_gradient or each.name in named]
    gradients = (Gradient(name=each.name, elements=each.count, dtype=each.dtype) for each in needed)
    plan.check(GradientSet(gradients=tuple(gradients)))


def keeps_states(codec: str) -> bool:
    """Whether a codec keeps values, such as residuals, from step to step."""
    made = load_core().create_codec(codec)
    if made.low_rank is not None:
        return bool(made.low_rank[2])  # error feedback
    return bool(made.states or made.for_aggregate().states)
