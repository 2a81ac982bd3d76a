# SPDX-License-Identifier: Apache-2.0
"""Writes a model's gradients (names, sizes) into a file, the input of `hipress plan`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from hipress.tensorflow.training.synchronizer import names_of

if TYPE_CHECKING:
    from hipress.secopa.profile.gradients import GradientSet


def write_gradients(model: Any, path: str | os.PathLike[str]) -> None:
    """Writes names, sizes and element types of the model's gradients for `hipress plan --input`. Needs no init().

    Arguments:
        model: a built Keras model, or another object with `trainable_variables`. Names and order are as in
            DistributedOptimizer and DistributedGradientTape.
        path: a .json file gets all fields. Another file gets lines `name,number_of_float32`.

    Raises InvalidArgument if the model has no trainable variables yet, or the file cannot be written.
    """
    from hipress.secopa.profile.model_gradients import write_gradient_set

    write_gradient_set(gradients_of(model), path)


def gradients_of(model: Any) -> GradientSet:
    """The gradients that write_gradients() writes."""
    from hipress.secopa.profile.model_gradients import gradients_of_tensors

    variables = list(model.trainable_variables)
    return gradients_of_tensors(type(model).__name__, zip(names_of(variables), variables, strict=True))
