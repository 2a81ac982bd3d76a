# SPDX-License-Identifier: Apache-2.0
"""Turns the result of a search into a plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hipress.secopa.models.cost_model import CostModel
from hipress.secopa.plan.choice import RAW
from hipress.secopa.plan.plan import Decision, Plan
from hipress.secopa.planners.trials import Found
from hipress.secopa.planners.units import choices_of_gradients
from hipress.secopa.profile.gradients import GradientSet


def plan_of(
    gradients: GradientSet, model: CostModel, found: Found, reasons: Sequence[str], raw: Found, made_by: str
) -> Plan:
    """The plan of a result `found`. `reasons`: one per unit of `found`; `raw`: the best uncompressed candidate."""
    count = len(gradients.gradients)
    choices = choices_of_gradients(found.units, found.choices, count)
    reason_of = {member: reason for unit, reason in zip(found.units, reasons, strict=True) for member in unit.members}
    decisions = []
    for index, (gradient, choice) in enumerate(zip(gradients.gradients, choices, strict=True)):
        times, raw_times = found.step.gradients[index], raw.step.gradients[index]
        decisions.append(
            Decision(
                name=gradient.name,
                elements=gradient.elements,
                dtype=gradient.dtype,
                codec=choice.codec,
                topology=choice.topology,
                partitions=choice.partitions,
                group=choice.group,
                predicted_s=times.end_s - times.start_s,
                predicted_uncompressed_s=raw_times.end_s - raw_times.start_s,
                reason=reason_of[index],
            )
        )
    most = Counter(choice.topology for choice in choices).most_common(1)
    return Plan(
        made_by=made_by,
        model=gradients.model,
        cost_model=model.name,
        profile=model.profile.fingerprint(),
        world=model.world,
        topology=most[0][0] if most else "ps",
        predicted_step_s=found.step.step_s,
        predicted_uncompressed_step_s=raw.step.step_s,
        summary=_summary(decisions),
        decisions=tuple(decisions),
    )


def _summary(decisions: Sequence[Decision]) -> str:
    codecs = Counter(decision.codec for decision in decisions if decision.codec != RAW)
    if not codecs:
        return f"none of {len(decisions)} gradients is compressed"
    with_what = ", ".join(f"{count} with {codec}" for codec, count in codecs.most_common())
    return f"{codecs.total()} of {len(decisions)} gradients are compressed: {with_what}"
