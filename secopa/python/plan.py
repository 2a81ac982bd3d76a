# SPDX-License-Identifier: Apache-2.0
"""A plan: what was decided for every gradient of a model, with the reasons. The runtime does what it says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from hipress.errors import InvalidArgument
from hipress.secopa.choice import Choice
from hipress.secopa.document import Document, Part
from hipress.secopa.gradients import GradientSet


class Decision(Part):
    """About one gradient."""

    name: str
    elements: int = Field(ge=0)
    dtype: str = "float32"
    codec: str
    """Its text, with options if it has any; "none": not compressed."""
    topology: str
    partitions: int = Field(ge=1)
    group: str | None = None
    """Gradients of one group travel as one tensor."""
    predicted_s: float | None = None
    """Of this gradient, or of its group, from when its values are there until all ranks have the average."""
    predicted_uncompressed_s: float | None = None
    """The same if nothing were compressed."""
    reason: str = ""

    @property
    def choice(self) -> Choice:
        return Choice(self.codec, self.topology, self.partitions, self.group)


class Plan(Document):
    """For one model and one number of ranks. Decisions are in the order of the model."""

    version: Literal[1] = 1
    made_by: str
    """What made it: a command, a planner, a cost model."""
    model: str = ""
    cost_model: str = ""
    profile: str = ""
    """The fingerprint of the profile."""
    world: int = Field(ge=1)
    """Ranks."""
    topology: str
    """Of tensors that the plan does not name."""
    predicted_step_s: float | None = None
    predicted_uncompressed_step_s: float | None = None
    summary: str = ""
    decisions: tuple[Decision, ...]

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        names: set[str] = set()
        groups: dict[str, Decision] = {}
        for decision in self.decisions:
            if decision.name in names:
                raise ValueError(f"two decisions are about '{decision.name}'")
            names.add(decision.name)
            if decision.group is None:
                continue
            first = groups.setdefault(decision.group, decision)
            if (first.choice, first.dtype) != (decision.choice, decision.dtype):
                raise ValueError(
                    f"group '{decision.group}': '{first.name}' and '{decision.name}' differ in codec, topology, "
                    "partitions or dtype"
                )
        return self

    def specs(self) -> Mapping[str, Choice]:
        """What the runtime needs: how each gradient travels, by its name."""
        return {decision.name: decision.choice for decision in self.decisions}

    def choices(self) -> list[Choice]:
        """What a cost model needs, in the order of the decisions."""
        return [decision.choice for decision in self.decisions]

    def check(self, gradients: GradientSet) -> None:
        """Raises InvalidArgument with the first difference between the gradients planned for and these."""
        planned = {decision.name: decision for decision in self.decisions}
        for gradient in gradients.gradients:
            decision = planned.pop(gradient.name, None)
            if decision is None:
                raise InvalidArgument(f"the plan says nothing about '{gradient.name}': make it anew for this model")
            for what, ours, theirs in (
                ("elements", decision.elements, gradient.elements),
                ("dtype", decision.dtype, gradient.dtype),
            ):
                if ours != theirs:
                    raise InvalidArgument(
                        f"'{gradient.name}': the plan is for {what} {ours}, the model has {theirs}: make the plan anew"
                    )
        if planned:
            raise InvalidArgument(f"the plan names '{next(iter(planned))}', which the model does not have")
