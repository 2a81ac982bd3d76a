# SPDX-License-Identifier: Apache-2.0
"""Writes a model's gradients (names, sizes, times) into a file, the input of `hipress plan`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from hipress.errors import InvalidArgument
from hipress.torch.reals import as_reals, resolved

if TYPE_CHECKING:
    from hipress.secopa.profile.gradients import GradientSet


def write_gradients(
    model: torch.nn.Module,
    path: str | os.PathLike[str],
    *,
    backward: Callable[[], Any] | None = None,
    steps: int = 5,
) -> None:
    """Writes names, sizes and element types of the model's gradients for `hipress plan --input`.

    Names and order are as in `model.named_parameters()`, without parameters that need no gradient. Needs no init().

    Arguments:
        path: a .json file gets all fields. Another file gets lines `name,number_of_float32`, without times.
        backward: computes a loss of the model and calls its backward(). If given, it is called `steps` + 1 times, and
            the file has each gradient's release time (seconds after the model's forward() has returned; medians of all
            calls but the first). From these times the planner computes which transfers backward hides. Use the batch
            size and the number of threads of the training. The model's gradients are None afterwards.

    Raises InvalidArgument if the model trains no parameters, their shapes are not known yet, or the file cannot be
    written.
    """
    from hipress.secopa.profile.model_gradients import write_gradient_set

    found = gradients_of(model)
    write_gradient_set(found if backward is None else _timed(model, found, backward, steps), path)


def gradients_of(model: torch.nn.Module) -> GradientSet:
    """The gradients of a model, without times."""
    from hipress.secopa.profile.model_gradients import gradients_of_tensors

    trained = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    for name, parameter in trained:
        if torch.nn.parameter.is_lazy(parameter):
            raise InvalidArgument(f"parameter '{name}' has no shape yet: let the model see a batch first")
    # Complex ones travel as real numbers.
    reals = [(name, as_reals(resolved(parameter.detach()))) for name, parameter in trained]
    return gradients_of_tensors(type(model).__name__, reals)


def _timed(model: torch.nn.Module, gradients: GradientSet, backward: Callable[[], Any], steps: int) -> GradientSet:
    from hipress.secopa.online.measure.releases import ReleaseTimes

    if steps < 1:
        raise InvalidArgument(f"steps={steps}: expected 1 or more")
    names = [one.name for one in gradients.gradients]
    times = ReleaseTimes(names)
    parameters = dict(model.named_parameters())
    hooks = [model.register_forward_hook(lambda *_: times.began())]
    for name in names:
        hooks.append(parameters[name].register_post_accumulate_grad_hook(lambda _, name=name: times.released(name)))
    try:
        for number in range(steps + 1):
            backward()
            times.ended()
            if number == 0:  # the first call warms up
                times = ReleaseTimes(names)
    finally:
        for hook in hooks:
            hook.remove()
        model.zero_grad(set_to_none=True)
    return times.on(gradients)
