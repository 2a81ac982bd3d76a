# SPDX-License-Identifier: Apache-2.0
"""1-bit Adam: AdamW whose momentum travels with a bit per element once its variance is frozen."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist

from hipress.errors import InvalidArgument
from hipress.options.travel import MIN_COMPRESS_BYTES
from hipress.torch.optim.synchronizing import SynchronizingOptimizer, Values
from hipress.torch.optim.travel import Travel


class OneBitAdam(SynchronizingOptimizer):
    """AdamW for `freeze_step` steps; from then on the variance stays, and ranks exchange their momentum compressed.

    Tang et al., 2021 (arXiv 2102.02888), algorithm 1. An error-feedback codec sends later what it drops now. Adam
    divides by the variance of such sums, which is far from the gradients' variance; a frozen variance is not. In the
    first steps gradients g are averaged exactly and the step is torch.optim.AdamW's. Later each rank makes
    m = β1 m + (1 - β1) g of its own gradient, the codec averages m with error feedback at the sender and at the rank
    that averages, and p = p - lr m̂ / (√v̂ + ε) with the average. Both keep AdamW's bias corrections, that of the
    variance as it was when it was frozen, so that nothing jumps (the paper's algorithm has none).

    All ranks begin with the same parameters: call broadcast_parameters() first. `clip_grad_norm_` before step() clips
    each rank's own gradient. GradScaler would leave out steps on some ranks only: use bfloat16 in its place.

    Arguments:
        params: `model.named_parameters()`, or groups of them; float32 on the CPU.
        lr, betas, eps, weight_decay: as in torch.optim.AdamW.
        freeze_step: steps with exact gradients, 1 or more. The paper takes the first 15 to 25 % of a training,
            past the warm-up of the learning rate: afterwards the variance hardly changes.
        codec: of the momentum; one with error feedback.
        codec_for: codecs of single parameters, by name. An embedding whose rows are seldom used has small variances
            beside large ones, which one scale for both does not suit: give it "fp16" or "int8".
        min_compress_bytes: smaller parameters' momentum travels exactly.
        group: a process group of CPU tensors; None: the engine, after `hipress.torch.init()`.

    Elements whose variance is zero when it is frozen never had a gradient, and stay as they are from then on. step()
    raises InvalidArgument, and changes nothing, if that is so for all elements of a parameter.

    Raises InvalidArgument, DuplicateName, Unsupported, NotInitialized; Mismatch, with the first difference, if the
    ranks' parameters or options differ; Timeout if a rank makes none.
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
        if not isinstance(freeze_step, int) or isinstance(freeze_step, bool) or freeze_step < 1:
            raise InvalidArgument(
                f"freeze_step={freeze_step!r}: give 1 or more; a variance that has seen no gradient is zero, and the "
                "step divides by it"
            )
        for name, value, top in (
            ("lr", lr, math.inf),
            ("eps", eps, math.inf),
            ("weight_decay", weight_decay, math.inf),
        ):
            if not 0.0 <= value < top:
                raise InvalidArgument(f"{name}={value!r}: give a number of 0 or more")
        if len(betas) != 2 or not all(0.0 <= each < 1.0 for each in betas):
            raise InvalidArgument(f"betas={betas!r}: give two numbers from 0 to below 1")
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
            self._check_frozen(variance)
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
        """Both after this step, by the parameter's name, in new tensors but for a frozen variance."""
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

    def _check_frozen(self, variance: Values) -> None:
        for name, each in variance.items():
            if not each.any():
                raise InvalidArgument(
                    f"parameter '{name}' has had no gradient in the first {self._freeze_step} steps, and its variance "
                    "would be frozen at zero: raise freeze_step until every parameter is used, or leave this one out"
                )

    def _own_state(self) -> dict[str, Any]:
        return {"freeze_step": self._freeze_step}

    def _check_state(self, state_dict: Mapping[str, Any], own: Mapping[str, Any] | None) -> None:
        super()._check_state(state_dict, own)
        steps = {int(each["step"]) for each in state_dict["state"].values() if "step" in each}
        if len(steps) > 1:
            raise InvalidArgument(f"the state's parameters have taken {min(steps)} to {max(steps)} steps, not as many")
        saved = self._freeze_step if own is None else own["freeze_step"]
        # A state of AdamW goes on before the freeze, whose step it has not seen.
        if steps and max(steps) >= min(saved, self._freeze_step) and (own is None or saved != self._freeze_step):
            frozen = "is of AdamW" if own is None else f"has freeze_step {saved}"
            raise InvalidArgument(
                f"the state has taken {max(steps)} steps and {frozen}; freeze_step={self._freeze_step} does not fit: "
                "give the saved number, or a number above the steps taken"
            )
