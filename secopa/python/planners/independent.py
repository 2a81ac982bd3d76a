# SPDX-License-Identifier: Apache-2.0
"""The original's planner: for each gradient alone it chooses the codec, topology and partitions with the least time.

In the published models synchronisations do not overlap, so these choices give the shortest step. For the timeline model
use search.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hipress.errors import InvalidArgument
from hipress.secopa.models.serial import SerialModel
from hipress.secopa.plan.choice import RAW, Choice
from hipress.secopa.plan.plan import Decision, Plan
from hipress.secopa.planners.options import PlanningOptions
from hipress.secopa.profile.gradients import Gradient, GradientSet
from hipress.secopa.profile.quantities import seconds


def plan_independently(gradients: GradientSet, model: SerialModel, options: PlanningOptions) -> Plan:
    """Compresses a gradient if its best compressed choice takes less time than its best uncompressed one.

    Raises InvalidArgument if the options limit error or memory: these limits hold for all gradients together.
    """
    if options.max_relative_error is not None or options.max_memory_bytes is not None:
        raise InvalidArgument("planner independent cannot limit error or memory: use --planner search")
    decisions = [_decide(gradient, model, options) for gradient in gradients.gradients]
    raw = [_best(gradient, [RAW], model, options)[1] for gradient in gradients.gradients]
    chosen = [decision.choice for decision in decisions]
    compressed = sum(choice.compressed for choice in chosen)
    return Plan(
        made_by=f"each gradient by itself, with the model {model.name}",
        model=gradients.model,
        cost_model=model.name,
        profile=model.profile.fingerprint(),
        world=model.world,
        topology=options.topologies[0],
        predicted_step_s=model.step(gradients, chosen).step_s,
        predicted_uncompressed_step_s=model.step(gradients, raw).step_s,
        summary=f"{compressed} of {len(decisions)} gradients are compressed",
        decisions=tuple(decisions),
    )


def _decide(gradient: Gradient, model: SerialModel, options: PlanningOptions) -> Decision:
    codecs = options.allowed(gradient, model.profile)
    raw_s, raw = _best(gradient, [RAW], model, options)
    best_s, choice, reason = raw_s, raw, "no codec is allowed for it"
    if codecs:
        compressed_s, compressed = _best(gradient, codecs, model, options)
        if compressed_s < raw_s:
            best_s, choice = compressed_s, compressed
            reason = f"takes {seconds(compressed_s)}, and {seconds(raw_s)} uncompressed"
        else:
            reason = f"would take {seconds(compressed_s)} with {compressed.codec}, and {seconds(raw_s)} uncompressed"
    return Decision(
        name=gradient.name,
        elements=gradient.elements,
        dtype=gradient.dtype,
        codec=choice.codec,
        topology=choice.topology,
        partitions=choice.partitions,
        predicted_s=best_s,
        predicted_uncompressed_s=raw_s,
        reason=reason,
    )


def _best(
    gradient: Gradient, codecs: Iterable[str], model: SerialModel, options: PlanningOptions
) -> tuple[float, Choice]:
    """The choice with the least time; among equals, the one with the fewest partitions."""
    taken = ((model.exchange_s(gradient, choice), choice) for choice in _ways(gradient, codecs, model, options))
    return min(taken, key=lambda pair: pair[0])


def _ways(gradient: Gradient, codecs: Iterable[str], model: SerialModel, options: PlanningOptions) -> Iterator[Choice]:
    for codec in codecs:
        for topology in options.topologies:
            for partitions in range(1, max(1, min(model.max_partitions(), gradient.elements)) + 1):
                yield Choice(codec, topology, partitions)
