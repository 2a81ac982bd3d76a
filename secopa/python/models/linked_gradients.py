# SPDX-License-Identifier: Apache-2.0
"""A gradient as its linked tensors, for planners and what-if."""

from __future__ import annotations

from hipress._library import load_core
from hipress.secopa.plan.choice import Choice
from hipress.secopa.plan.partitions import by_size
from hipress.secopa.profile.gradients import ELEMENT_BYTES, Gradient
from hipress.secopa.profile.linked import LinkedTensor
from hipress.secopa.profile.profile import Profile


def linked_tensors(profile: Profile, gradient: Gradient, codec: str) -> tuple[LinkedTensor, LinkedTensor] | None:
    """The two tensors with which the gradient travels; None if it travels as one."""
    costs = profile.linked.get(codec)
    if costs is None:
        return None
    return costs.tensors(gradient.elements, ELEMENT_BYTES[gradient.dtype], gradient.shape)


def default_partitions(profile: Profile, gradient: Gradient, choice_codec: str, world: int) -> int:
    """The runtime's default number of partitions; for a gradient as two tensors the number for the larger one."""
    both = linked_tensors(profile, gradient, choice_codec)
    if both is None:
        return by_size(gradient.elements, gradient.dtype, world)
    larger = max(both, key=lambda one: one.bytes)
    partitions: int = load_core().default_partitions(larger.elements, larger.element_bytes, world)
    return partitions


def sent_as(profile: Profile, gradient: Gradient, choice: Choice) -> list[float]:
    """The bytes of the tensors that travel for the gradient: encoded, uncompressed, or of two linked tensors.

    If own values are packed, at most all messages (allgather) or half of them (other topologies) have half the bytes.
    """
    both = linked_tensors(profile, gradient, choice.codec)
    if both is not None:
        packed = 0.5 if "allgather" in choice.topology else 0.75
        return [one.bytes * (packed if one.packs_own else 1.0) for one in both]
    if not choice.compressed or choice.codec in profile.linked:
        return [float(gradient.bytes)]
    return [profile.codec(choice.codec).encoded.of(4 * gradient.elements)]
