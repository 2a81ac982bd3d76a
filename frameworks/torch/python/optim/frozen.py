# SPDX-License-Identifier: Apache-2.0
"""Checks of optimizers that freeze their variance: arguments, the variance at the freeze, and saved states."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from hipress.errors import InvalidArgument


def check_rates(lr: float, betas: tuple[float, float], eps: float, weight_decay: float) -> None:
    """Raises InvalidArgument for numbers that are out of range."""
    for name, value in (("lr", lr), ("eps", eps), ("weight_decay", weight_decay)):
        if not 0.0 <= value < math.inf:
            raise InvalidArgument(f"{name}={value!r}: give a number of 0 or more")
    if len(betas) != 2 or not all(0.0 <= each < 1.0 for each in betas):
        raise InvalidArgument(f"betas={betas!r}: give two numbers from 0 to below 1")


def check_freeze_step(freeze_step: object) -> None:
    """Raises InvalidArgument unless it is a whole number of 1 or more."""
    if not isinstance(freeze_step, int) or isinstance(freeze_step, bool) or freeze_step < 1:
        raise InvalidArgument(
            f"freeze_step={freeze_step!r}: give 1 or more; a variance that has seen no gradient is zero, and the "
            "step divides by it"
        )


def check_variance(variance: Mapping[str, torch.Tensor], freeze_step: int) -> None:
    """Raises InvalidArgument if the variance of a whole parameter is zero, by the parameter's name."""
    for name, each in variance.items():
        if not each.any():
            raise InvalidArgument(
                f"parameter '{name}' has had no gradient in the first {freeze_step} steps, and its variance "
                "would be frozen at zero: raise freeze_step until every parameter is used, or leave this one out"
            )


def check_saved_freeze(state_dict: Mapping[str, Any], own: Mapping[str, Any] | None, freeze_step: int) -> None:
    """Raises InvalidArgument if the state's variance was frozen after another number of steps.

    `own`: what HiPress added to the state. None: the state is torch.optim.AdamW's, which has frozen nothing, so it fits
    only before the freeze.
    """
    steps = {int(each["step"]) for each in state_dict["state"].values() if "step" in each}
    if len(steps) > 1:
        raise InvalidArgument(f"the state's parameters have taken {min(steps)} to {max(steps)} steps, not as many")
    saved = freeze_step if own is None else own["freeze_step"]
    if steps and max(steps) >= min(saved, freeze_step) and (own is None or saved != freeze_step):
        frozen = "is of AdamW" if own is None else f"has freeze_step {saved}"
        raise InvalidArgument(
            f"the state has taken {max(steps)} steps and {frozen}; freeze_step={freeze_step} does not fit: "
            "give the saved number, or a number above the steps taken"
        )
