# SPDX-License-Identifier: Apache-2.0
"""What goes over the network: single gradients, and groups of them that travel as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hipress.errors import InvalidArgument
from hipress.secopa.choice import Choice
from hipress.secopa.gradients import ELEMENT_BYTES, GradientSet


class Traveller(NamedTuple):
    """A gradient or a group."""

    name: str
    """The gradient's, or that of the group's first member."""
    members: tuple[int, ...]
    """Indices of the gradients."""
    elements: int
    bytes: int
    """Not compressed."""
    release_s: float
    """When the last member is complete."""
    choice: Choice


def travellers(gradients: GradientSet, choices: Sequence[Choice]) -> list[Traveller]:
    """In the order of the model; a group is where its first member is.

    Raises InvalidArgument if there is not one choice per gradient, or if members of a group differ in theirs.
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
        # A search asks about hundreds of gradients hundreds of times, and nearly all travel alone.
        for index in indices[1:]:
            one = gradients.gradients[index]
            if choices[index] != choice or one.dtype != first.dtype:
                raise InvalidArgument(f"group '{group}': '{first.name}' and '{one.name}' do not travel alike")
            elements += one.elements
            release_s = max(release_s, releases_s[index])
        size = elements * ELEMENT_BYTES[first.dtype]
        found.append(Traveller(first.name, tuple(indices), elements, size, release_s, choice))
    return found
