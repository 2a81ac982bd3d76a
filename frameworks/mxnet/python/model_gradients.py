# SPDX-License-Identifier: Apache-2.0
"""Writes a model's gradients (names, sizes) into a file, the input of `hipress plan`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from hipress.errors import InvalidArgument

if TYPE_CHECKING:
    from hipress.secopa.profile.gradients import GradientSet


def write_gradients(model: Any, path: str | os.PathLike[str]) -> None:
    """Writes names, sizes and element types of the model's gradients for `hipress plan --input`. Needs no init().

    Arguments:
        model: a Gluon block whose shapes are known. Names and order are as in `model.collect_params()`, which
            DistributedTrainer takes, without parameters that need no gradient.
        path: a .json file gets all fields. Another file gets lines `name,number_of_float32`.

    Raises InvalidArgument if the model trains no parameters, their shapes are not known yet, or the file cannot be
    written.
    """
    from hipress.secopa.profile.model_gradients import write_gradient_set

    write_gradient_set(gradients_of(model), path)


def gradients_of(model: Any) -> GradientSet:
    """The gradients that write_gradients() writes."""
    from hipress.secopa.profile.model_gradients import gradients_of_tensors

    trained = [each for each in model.collect_params().values() if each.grad_req != "null"]
    for each in trained:
        if each.shape is None or any(size <= 0 for size in each.shape):
            raise InvalidArgument(f"parameter '{each.name}' has no shape yet: let the model see a batch first")
    return gradients_of_tensors(type(model).__name__, ((each.name, each) for each in trained))
