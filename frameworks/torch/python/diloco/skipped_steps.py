# SPDX-License-Identifier: Apache-2.0
"""Inner steps that torch.amp.GradScaler leaves out because a gradient is not finite: they count as steps.

Each rank has gradients, and so overflows, of its own. A step that is not counted would make this rank's exchanges
later than those of all others.
"""

from __future__ import annotations

import weakref

import torch

from hipress.torch.installed.private_names import STEPS_AFTER_OVERFLOW


class SkippedSteps:
    """Makes a scaler call the optimizer's step() after an overflow, too; the step then changes nothing."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        # The optimizer holds DiLoCo, and so this object: all of them go when the program forgets them.
        self._optimizer = weakref.ref(optimizer)
        self._kept: list[tuple[torch.Tensor, torch.Tensor]] = []
        # Fused optimizers do it in their kernels.
        self._ours = not getattr(optimizer, STEPS_AFTER_OVERFLOW, False)
        if self._ours:
            setattr(optimizer, STEPS_AFTER_OVERFLOW, True)

    @torch.no_grad()
    def before_step(self) -> None:
        """Does the scaler's work: unscales the gradients, or hides them from the optimizer after an overflow."""
        optimizer = self._optimizer()
        found = getattr(optimizer, "found_inf", None)
        if not self._ours or optimizer is None or found is None:
            return
        scale = getattr(optimizer, "grad_scale", None)
        # Optimizers such as torch's Adam refuse both where they do not use them. The scaler deletes them afterwards.
        for name in ("found_inf", "grad_scale"):
            setattr(optimizer, name, None)
        parameters = [each for group in optimizer.param_groups for each in group["params"]]
        if bool(found):
            self._kept = [(each, each.grad) for each in parameters if each.grad is not None]
            for each, _ in self._kept:
                each.grad = None
        elif scale is not None:
            # As the scaler computes it.
            factor = scale.double().reciprocal().float()
            for each in parameters:
                if each.grad is not None:
                    each.grad.mul_(factor.to(each.grad.device))

    def after_step(self) -> None:
        """Gives the gradients back."""
        for parameter, gradient in self._kept:
            parameter.grad = gradient
        self._kept = []

    def end(self) -> None:
        """The scaler does it again."""
        optimizer = self._optimizer()
        if self._ours and optimizer is not None:
            delattr(optimizer, STEPS_AFTER_OVERFLOW)
        self._ours = False
