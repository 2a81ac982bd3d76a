# SPDX-License-Identifier: Apache-2.0
"""1-bit Adam: AdamW whose momentum travels with one bit per element as soon as the variance is frozen."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist

from hipress.options.travel import MIN_COMPRESS_BYTES
from hipress.torch.optim.frozen import check_freeze_step, check_rates, check_saved_freeze, check_variance
from hipress.torch.optim.synchronizing import SynchronizingOptimizer, Values
from hipress.torch.optim.travel import Travel


class OneBitAdam(SynchronizingOptimizer):
    """AdamW for `freeze_step` steps; afterwards the variance is frozen, and ranks exchange compressed momentum.

    Tang et al., 2021 (arXiv 2102.02888), algorithm 1. Error feedback adds the residual to the next gradient. Adam would
    divide by the variance of such sums, which is far from the variance of the gradients; a frozen variance avoids this.
    In the first `freeze_step` steps ranks average gradients g exactly, and the step is torch.optim.AdamW's. Later each
    rank computes m = β1 m + (1 - β1) g from its own gradient. The codec averages m, with error feedback at the sender
    and at the aggregator, and p = p - lr m̂ / (√v̂ + ε) with the average. Both phases have AdamW's bias corrections, so
    the freeze makes no jump; the correction of the variance keeps its value of the freeze (the paper's algorithm has no
    corrections).

    All ranks begin with the same parameters: call broadcast_parameters() first. `clip_grad_norm_` before step() clips
    each rank's own gradient. GradScaler would skip steps on some ranks only: use bfloat16 in its place.

    Arguments:
        params: `model.named_parameters()`, or groups of them; float32 on the CPU.
        lr, betas, eps, weight_decay: as in torch.optim.AdamW.
        freeze_step: number of steps with exact gradients, 1 or more. The paper takes the first 15 to 25 % of a
            training, longer than the warm-up of the learning rate: after them the variance hardly changes.
        codec: the codec of the momentum; it must have error feedback.
        codec_for: codecs of single parameters, by name. Give an embedding with seldom used rows "fp16" or "int8": it
            has small variances beside large ones, and one scale for both does not fit.
        min_compress_bytes: smaller parameters' momentum travels exactly.
        group: a process group of CPU tensors; None: the engine, after `hipress.torch.init()`.

    An element whose frozen variance is zero had no gradient before the freeze, and only weight decay changes it
    afterwards. If all elements of a parameter are so, step() raises InvalidArgument and changes nothing.

    Raises InvalidArgument, DuplicateName, Unsupported, NotInitialized; Mismatch, with the first difference, if the
    ranks' parameters or options differ; Timeout if a rank does not make the optimizer.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
        *,
        freeze_step: int,
        codec: str = "onebit",
        codec_for: Mapping[str, str] | None = None,
        min_compress_bytes: int = MIN_COMPRESS_BYTES,
        group: dist.ProcessGroup | None = None,
    ) -> None:
        check_freeze_step(freeze_step)
        check_rates(lr, betas, eps, weight_decay)
        self._freeze_step = freeze_step
        travel = Travel(codec, dict(codec_for or {}), min_compress_bytes)
        options = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, options, travel, group)

    def _agreed(self) -> dict[str, str]:
        return {**super()._agreed(), "freeze_step": str(self._freeze_step), "travel": str(self._travel)}

    @property
    def frozen(self) -> bool:
        """Whether the next step sends compressed momentum."""
        return self.steps >= self._freeze_step

    def _step(self, step: int) -> None:
        momentum, variance = self._momentum_and_variance(step)
        if step == self._freeze_step:
            check_variance(variance, self._freeze_step)
        for group, parameters in self._by_group():
            beta1, beta2 = group["betas"]
            size = group["lr"] / (1 - beta1**step)
            correction = math.sqrt(1 - beta2 ** min(step, self._freeze_step))
            for name, parameter in parameters.items():
                divisor = (variance[name].sqrt() / correction).add_(group["eps"])
                if step > self._freeze_step:
                    momentum[name].masked_fill_(variance[name] == 0, 0.0)
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                parameter.addcdiv_(momentum[name], divisor, value=-size)
                self.state[parameter].update(exp_avg=momentum[name], exp_avg_sq=variance[name])
        self._count(step)

    def _momentum_and_variance(self, step: int) -> tuple[Values, Values]:
        """Momentum and variance after this step, by parameter's name; new tensors, except a frozen variance."""
        warm = step <= self._freeze_step
        values = {name: self._gradient(each) for name, each in self._parameters.items()}
        if warm:
            self._exchange().average(values, compressed=False)
        momentum: Values = {}
        variance: Values = {}
        for group, parameters in self._by_group():
            beta1, beta2 = group["betas"]
            for name, parameter in parameters.items():
                state, gradient = self.state[parameter], values[name]
                old = state.get("exp_avg", torch.zeros(()))
                momentum[name] = gradient.mul(1 - beta1).add_(old, alpha=beta1)
                squared = state.get("exp_avg_sq", torch.zeros(()))
                variance[name] = gradient.square().mul_(1 - beta2).add_(squared, alpha=beta2) if warm else squared
        if not warm:
            self._exchange().average(momentum, compressed=True)
        return momentum, variance

    def _own_state(self) -> dict[str, Any]:
        return {"freeze_step": self._freeze_step}

    def _check_state(self, state_dict: Mapping[str, Any], own: Mapping[str, Any] | None) -> None:
        super()._check_state(state_dict, own)
        check_saved_freeze(state_dict, own, self._freeze_step)
