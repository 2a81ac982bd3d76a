# SPDX-License-Identifier: Apache-2.0
"""What goes over the network: single gradients, and groups of them that travel as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hipress.errors import InvalidArgument
from hipress.secopa.choice import Choice
from hipress.secopa.gradients import GradientSet


@dataclass(frozen=True)
class Traveller:
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
        ones = [gradients.gradients[index] for index in indices]
        for index, one in zip(indices, ones, strict=True):
            if choices[index] != choices[indices[0]] or one.dtype != ones[0].dtype:
                raise InvalidArgument(f"group '{group}': '{ones[0].name}' and '{one.name}' do not travel alike")
        found.append(
            Traveller(
                name=ones[0].name,
                members=tuple(indices),
                elements=sum(one.elements for one in ones),
                bytes=sum(one.bytes for one in ones),
                release_s=max(releases_s[index] for index in indices),
                choice=choices[indices[0]],
            )
        )
    return found
