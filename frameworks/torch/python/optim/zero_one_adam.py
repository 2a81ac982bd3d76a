# SPDX-License-Identifier: Apache-2.0
"""0/1 Adam: Adam whose ranks exchange one bit per element in most steps, or nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist

from hipress.errors import InvalidArgument
from hipress.options.travel import MIN_COMPRESS_BYTES
from hipress.torch.optim.carrier import Carrier, carrier_of
from hipress.torch.optim.frozen import check_rates
from hipress.torch.optim.intervals import local_interval, updates_variance
from hipress.torch.optim.synchronizing import SynchronizingOptimizer, Values
from hipress.torch.optim.travel import Travel


class ZeroOneAdam(SynchronizingOptimizer):
    """Adam that averages gradients exactly at growing intervals, and later synchronises only every few steps.

    Lu et al., 2022 (arXiv 2202.06009), as in its authors' code (DeepSpeed). In the first `var_freeze_step` steps, every
    k-th step averages gradients exactly and updates variance and momentum; k begins with 1 and doubles after every
    `var_update_scaler` such steps. The other steps average gradients with the codec and update the momentum m only.
    Afterwards the variance v is frozen. Each rank takes its own steps, p = p - lr m / (√v + ε), and adds up u = u + lr
    m. In every j-th step the ranks average u with the codec, take the parameters of the last such step, and compute
    from them p = p - u / (√v + ε), m = u / (sum of the lr), u = 0. j begins with 1 and doubles every
    `local_step_scaler` steps up to `local_step_clipper`. Like its authors' code it has no bias corrections: let the
    learning rate warm up.

    HiPress keeps the parameters of the last synchronised step, so that all ranks have the same bits after the next one;
    the authors' code subtracts its local updates, which rounds. Weight decay is decoupled and outside u and m, as in
    AdamW. At the freeze, the residuals of the gradients are dropped, as in the authors' code, because u has another
    unit.

    All ranks begin with the same parameters: call broadcast_parameters() first. Between synchronised steps each rank
    has its own parameters, momentum and u: evaluate the model, and save it for other ranks, only when `synchronized` is
    true. Every rank saves its own state_dict().

    Arguments:
        params: `model.named_parameters()`, or groups of them; float32 on the CPU.
        lr, betas, eps, weight_decay: as in torch.optim.AdamW.
        var_freeze_step: number of steps before the variance is frozen, 1 or more.
        var_update_scaler: number of exact steps after which their distance doubles.
        local_step_scaler: number of steps, after the freeze, after which the distance of synchronised steps doubles.
        local_step_clipper: the largest distance of synchronised steps.
        codec: the codec of gradients and of u; it must have error feedback.
        codec_for: codecs of single parameters, by name; see OneBitAdam.
        min_compress_bytes: smaller parameters' values travel exactly.
        group: a process group of CPU tensors; None: the engine, after `hipress.torch.init()`.

    An element whose variance is zero has had no gradient in an exact step; only exact steps change it. If the variance
    of a whole parameter is zero at the freeze, step() raises InvalidArgument and changes nothing.

    Raises InvalidArgument, DuplicateName, Unsupported, NotInitialized; Mismatch, with the first difference, if the
    ranks' parameters or options differ; Timeout if a rank does not make the optimizer.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        var_freeze_step: int = 100_000,
        var_update_scaler: int = 16,
        local_step_scaler: int = 32_678,
        local_step_clipper: int = 16,
        codec: str = "onebit",
        codec_for: Mapping[str, str] | None = None,
        min_compress_bytes: int = MIN_COMPRESS_BYTES,
        group: dist.ProcessGroup | None = None,
    ) -> None:
        self._numbers = {
            "var_freeze_step": var_freeze_step,
            "var_update_scaler": var_update_scaler,
            "local_step_scaler": local_step_scaler,
            "local_step_clipper": local_step_clipper,
        }
        for name, number in self._numbers.items():
            if not isinstance(number, int) or isinstance(number, bool) or number < 1:
                raise InvalidArgument(f"{name}={number!r}: give a whole number of 1 or more")
        check_rates(lr, betas, eps, weight_decay)
        self._freeze_step = var_freeze_step
        travel = Travel(codec, dict(codec_for or {}), min_compress_bytes)
        options = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, options, travel, group)
        # Compressed gradients have a separate carrier: an exact average over the same one would send the residuals.
        shapes = {name: each.shape for name, each in self._parameters.items()}
        self._gradients = carrier_of("zerooneadam_gradients", shapes, travel, group)

    def _agreed(self) -> dict[str, str]:
        return {**super()._agreed(), "steps": str(self._numbers), "travel": str(self._travel)}

    def _carriers(self) -> dict[str, Carrier]:
        return {**super()._carriers(), "gradient_codecs": self._gradients}

    @property
    def frozen(self) -> bool:
        """Whether the variance is frozen in the next step."""
        return self.steps >= self._freeze_step

    @property
    def synchronized(self) -> bool:
        """Whether all ranks have the same parameters."""
        return self._synchronizes(self.steps)

    def _has_equal_replicas(self) -> bool:
        return self.synchronized

    def _synchronizes(self, step: int) -> bool:
        numbers = self._numbers
        after = step - self._freeze_step
        return step % local_interval(after, numbers["local_step_scaler"], numbers["local_step_clipper"]) == 0

    def _step(self, step: int) -> None:
        if step <= self._freeze_step:
            self._step_with_all(step)
        else:
            self._step_alone(step)
        self._count(step)

    def _step_with_all(self, step: int) -> None:
        exact = updates_variance(step, self._numbers["var_update_scaler"])
        gradients = {name: self._gradient(each) for name, each in self._parameters.items()}
        (self._exchange() if exact else self._gradients).average(gradients, compressed=not exact)
        variance: Values = {}
        for group, parameters in self._by_group():
            beta2 = group["betas"][1]
            for name, parameter in parameters.items():
                before = self.state[parameter].get("exp_avg_sq", torch.zeros(()))
                squared = gradients[name].square().mul_(1 - beta2)
                variance[name] = squared.add_(before, alpha=beta2) if exact else before
        if step == self._freeze_step:
            self._check_frozen(variance)
        for group, parameters in self._by_group():
            beta1 = group["betas"][0]
            for name, parameter in parameters.items():
                state = self.state[parameter]
                before = state.get("exp_avg", torch.zeros(()))
                momentum = gradients[name].mul_(1 - beta1).add_(before, alpha=beta1)
                momentum.masked_fill_(variance[name] == 0, 0.0)
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                parameter.addcdiv_(momentum, variance[name].sqrt().add_(group["eps"]), value=-group["lr"])
                state.update(exp_avg=momentum, exp_avg_sq=variance[name])

    def _check_frozen(self, variance: Values) -> None:
        for name, each in variance.items():
            if not each.any():
                raise InvalidArgument(
                    f"parameter '{name}' has had no gradient in the exact steps of the first {self._freeze_step}, "
                    "and its variance would be frozen at zero: raise var_freeze_step until every parameter is used, or "
                    "leave this one out"
                )

    def _step_alone(self, step: int) -> None:
        momentum: Values = {}
        updates: Values = {}
        for group, parameters in self._by_group():
            beta1 = group["betas"][0]
            for name, parameter in parameters.items():
                state = self.state[parameter]
                moved = self._gradient(parameter).mul_(1 - beta1).add_(state["exp_avg"], alpha=beta1)
                momentum[name] = moved.masked_fill_(state["exp_avg_sq"] == 0, 0.0)
                updates[name] = state.get("update", torch.zeros(())) + group["lr"] * moved
        synchronizes = self._synchronizes(step)
        if synchronizes:
            self._exchange().average(updates, compressed=True)
        for group, parameters in self._by_group():
            for name, parameter in parameters.items():
                self._move(parameter, group, momentum[name], updates[name], synchronizes)

    def _move(
        self,
        parameter: torch.Tensor,
        group: dict[str, Any],
        momentum: torch.Tensor,
        update: torch.Tensor,
        synchronizes: bool,
    ) -> None:
        """`update`: the sum of this rank's updates or, if it `synchronizes`, the average of all ranks' sums."""
        state, lr = self.state[parameter], group["lr"]
        divisor = state["exp_avg_sq"].sqrt().add_(group["eps"])
        kept = 1 - lr * group["weight_decay"]
        lr_sum, decay = state.get("lr_sum", 0.0) + lr, state.get("decay", 1.0) * kept
        if not synchronizes:
            if "base" not in state:
                state["base"] = parameter.clone(memory_format=torch.contiguous_format)
            parameter.mul_(kept).addcdiv_(momentum, divisor, value=-lr)
            state.update(exp_avg=momentum, update=update, lr_sum=lr_sum, decay=decay)
            return
        update.masked_fill_(state["exp_avg_sq"] == 0, 0.0)
        if "base" in state:
            parameter.copy_(state.pop("base"))
        parameter.mul_(decay).addcdiv_(update, divisor, value=-1.0)
        # If all learning rates were zero, the sum of updates does not determine the momentum.
        state["exp_avg"] = update / lr_sum if lr_sum else momentum
        for key in ("update", "lr_sum", "decay"):
            state.pop(key, None)

    def _own_state(self) -> dict[str, Any]:
        return dict(self._numbers)

    def _check_state(self, state_dict: Mapping[str, Any], own: Mapping[str, Any] | None) -> None:
        super()._check_state(state_dict, own)
        if own is None:
            raise InvalidArgument("the state is no state_dict() of ZeroOneAdam, whose variance has no bias correction")
        for name, number in self._numbers.items():
            if own.get(name) != number:
                raise InvalidArgument(f"the state has {name}={own.get(name)!r}, and here it is {number}")
        carrier = self._exchange()
        between = any("base" in each for each in state_dict["state"].values())
        if between and (own["rank"], own["world"]) != (carrier.rank, carrier.world):
            raise InvalidArgument(
                f"the state is of rank {own['rank']} of {own['world']}, saved between two synchronised steps, and this "
                f"is rank {carrier.rank} of {carrier.world}: save for other ranks where `synchronized` is true"
            )
