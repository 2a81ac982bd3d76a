# SPDX-License-Identifier: Apache-2.0
"""One tensor of a stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hipress.errors import InvalidArgument, Mismatch


@dataclass(frozen=True)
class Weight:
    """A tensor's name, element type, shape and bytes."""

    name: str
    dtype: str
    """The framework's name of the type, without a prefix: "bfloat16"."""
    shape: tuple[int, ...]
    element_bytes: int
    bytes: NDArray[np.uint8]
    """The tensor's memory, contiguous, in row-major order. A follower writes here."""

    @property
    def kind(self) -> str:
        """The type and shape, which two versions of a tensor have in common, as text."""
        return f"{self.dtype}{list(self.shape)}"


def check_names(weights: Sequence[Weight]) -> None:
    """Raises InvalidArgument if there is no tensor, or if two tensors have the same name."""
    if not weights:
        raise InvalidArgument("there are no weights: give the tensors of a model by name, as model.state_dict() does")
    names = [weight.name for weight in weights]
    if len(set(names)) < len(names):
        twice = next(name for index, name in enumerate(names) if name in names[:index])
        raise InvalidArgument(f"two weights are called '{twice}'")


def check_same_model(ours: Sequence[tuple[str, str]], theirs: Sequence[tuple[str, str]], where: str) -> None:
    """Raises Mismatch with the first difference between two lists of names and kinds.

    `where` names the source of the second list.
    """
    here, there = dict(ours), dict(theirs)
    for name, kind in here.items():
        if name not in there:
            raise Mismatch(f"the model has a weight '{name}', {where} has none of this name")
        if there[name] != kind:
            raise Mismatch(f"the weight '{name}' is {kind} in the model, and {there[name]} in {where}")
    for name in there:
        if name not in here:
            raise Mismatch(f"{where} has a weight '{name}', the model has none of this name")
