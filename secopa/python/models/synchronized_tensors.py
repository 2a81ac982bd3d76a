# SPDX-License-Identifier: Apache-2.0
"""The tensors that a step synchronises: single gradients, and groups of gradients fused into one tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hipress.errors import InvalidArgument
from hipress.secopa.plan.choice import Choice
from hipress.secopa.profile.gradients import ELEMENT_BYTES, GradientSet


class SynchronizedTensor(NamedTuple):
    """A gradient, or a group of gradients that is synchronised as one tensor."""

    name: str
    """The name of the gradient, or of the first member of the group."""
    members: tuple[int, ...]
    """Indices of the gradients."""
    elements: int
    bytes: int
    """Bytes of the uncompressed values."""
    release_s: float
    """The time at which backward has released the last member."""
    choice: Choice
    element_bytes: int
    shape: tuple[int, ...] | None
    """The dimensions of a single gradient, if they are known."""


def synchronized_tensors(gradients: GradientSet, choices: Sequence[Choice]) -> list[SynchronizedTensor]:
    """The tensors in the order of the model; a group has the place of its first member.

    Raises InvalidArgument if there is not one choice per gradient, or if the members of a group have different choices.
    """
    if len(choices) != len(gradients.gradients):
        raise InvalidArgument(f"{len(gradients.gradients)} gradients, but {len(choices)} choices")
    members: dict[str | int, list[int]] = {}
    for index, choice in enumerate(choices):
        members.setdefault(index if choice.group is None else choice.group, []).append(index)
    releases_s = gradients.releases_s()
    found = []
    for group, indices in members.items():
        first = gradients.gradients[indices[0]]
        choice = choices[indices[0]]
        elements, release_s = first.elements, releases_s[indices[0]]
        # A search makes hundreds of calls for hundreds of gradients, and few of these are in a group.
        for index in indices[1:]:
            one = gradients.gradients[index]
            if choices[index] != choice or one.dtype != first.dtype:
                raise InvalidArgument(
                    f"group '{group}': '{first.name}' and '{one.name}' differ in codec, topology, partitions or dtype"
                )
            elements += one.elements
            release_s = max(release_s, releases_s[index])
        each = ELEMENT_BYTES[first.dtype]
        shape = first.shape if choice.group is None else None
        found.append(
            SynchronizedTensor(first.name, tuple(indices), elements, elements * each, release_s, choice, each, shape)
        )
    return found
