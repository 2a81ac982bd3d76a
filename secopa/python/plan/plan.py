# SPDX-License-Identifier: Apache-2.0
"""A plan: the decision about every gradient of a model, with its reason. The runtime follows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import FailFast, Field, model_validator
from typing_extensions import Self

from hipress.errors import InvalidArgument
from hipress.secopa.plan.choice import Choice
from hipress.secopa.plan.partitions import MOST_PARTITIONS
from hipress.secopa.profile.document import Document, Part, shown
from hipress.secopa.profile.gradients import MOST_ELEMENTS, MOST_GRADIENTS, GradientSet

#: The largest number of ranks of a plan, because planners need memory for each rank.
MOST_RANKS = 1 << 16


class Decision(Part):
    """The decision about one gradient."""

    name: str
    elements: int = Field(ge=0, le=MOST_ELEMENTS)
    dtype: str = "float32"
    codec: str
    """The codec's text, with its options; "none" for an uncompressed gradient."""
    topology: str
    partitions: int = Field(ge=1, le=MOST_PARTITIONS)
    group: str | None = None
    """The gradients of a group are synchronised as one tensor."""
    predicted_s: float | None = None
    """Seconds from the release of this gradient, or of its group, until all ranks have the average."""
    predicted_uncompressed_s: float | None = None
    """`predicted_s` of a step without compression."""
    reason: str = ""

    @property
    def choice(self) -> Choice:
        return Choice(self.codec, self.topology, self.partitions, self.group)


class Plan(Document):
    """A plan for one model and one number of ranks. The decisions have the order of the model."""

    version: Literal[1] = 1
    made_by: str
    """The command, planner and cost model that made the plan."""
    model: str = ""
    cost_model: str = ""
    profile: str = ""
    """The fingerprint of the profile."""
    world: int = Field(ge=1, le=MOST_RANKS)
    """Number of ranks."""
    topology: str
    """The topology of tensors that the plan does not name."""
    predicted_step_s: float | None = None
    predicted_uncompressed_step_s: float | None = None
    summary: str = ""
    decisions: Annotated[tuple[Decision, ...], FailFast(), Field(max_length=MOST_GRADIENTS)]

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        names: set[str] = set()
        groups: dict[str, Decision] = {}
        for decision in self.decisions:
            if decision.name in names:
                raise ValueError(f"two decisions are about {shown(decision.name)}")
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
        """The choices by gradient name, for the runtime."""
        return {decision.name: decision.choice for decision in self.decisions}

    def choices(self) -> list[Choice]:
        """The choices in the order of the decisions, for a cost model."""
        return [decision.choice for decision in self.decisions]

    def check(self, gradients: GradientSet) -> None:
        """Raises InvalidArgument with the first difference between the plan's gradients and these."""
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
