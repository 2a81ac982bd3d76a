# SPDX-License-Identifier: Apache-2.0
"""1-bit LAMB: LAMB whose momentum travels with one bit per element as soon as the variance is frozen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from hipress.errors import InvalidArgument
from hipress.options.travel import MIN_COMPRESS_BYTES
from hipress.torch.optim.frozen import check_freeze_step, check_rates, check_saved_freeze, check_variance
from hipress.torch.optim.norms import norm
from hipress.torch.optim.synchronizing import SynchronizingOptimizer, Values
from hipress.torch.optim.travel import Travel


class _Move(NamedTuple):
    """The change of one parameter in one step."""

    update: torch.Tensor
    coefficient: float
    """The parameter moves by - lr × coefficient × update."""
    kept: dict[str, Any]
    """Its new state."""


class OneBitLamb(SynchronizingOptimizer):
    """LAMB for `freeze_step` steps; afterwards the variance is frozen, and ranks exchange compressed momentum.

    Li et al., 2021 (arXiv 2104.06069); each step is that of DeepSpeed, its authors' code. LAMB moves a parameter p by
    lr × c × u with u = m / (√v + ε) + weight_decay × p. Its scaling coefficient c is ‖p‖ / ‖u‖ within `min_coeff` to
    `max_coeff`, and 1 if a norm is zero. In the first `freeze_step` steps ranks average gradients g exactly, the step
    is LAMB's, and c̄ = `coeff_beta` c̄ + (1 - `coeff_beta`) c is the running mean of the coefficients. Then v is frozen.
    Later each rank computes m = β1 m + (1 - β1) g from its own gradient, and the codec averages m, with error feedback
    at the sender and at the aggregator. The averaged gradient follows from the averaged m: (m - β1 m before) /
    (1 - β1). A second variance w goes on with these gradients. The coefficient becomes c̄ × r, where r is the largest
    (√v + ε) / (√w + ε) of the parameter's elements, within `factor_min` to `factor_max`, and within `factor_threshold`
    of its last value, which begins with 1.

    With weight decay r is mixed with 1, by the part ‖m / (√v + ε)‖ / ‖u‖ of the update that has a variance. This mix,
    and the absence of bias corrections, are the authors' code's. HiPress differs from that code in one point. The code
    sends all momenta as one vector with one scale, after it has multiplied each parameter's momentum so that all are
    equally large; in HiPress each parameter has scales of its own, and needs no such factor.

    All ranks begin with the same parameters: call broadcast_parameters() first. `clip_grad_norm_` before step() clips
    each rank's own gradient. GradScaler would skip steps on some ranks only: use bfloat16 in its place. Norms have the
    same bits on ranks with different processors or numbers of threads.

    Arguments:
        params: `model.named_parameters()`, or groups of them; float32 on the CPU. Each has a coefficient of its own.
        lr, betas, eps, weight_decay: LAMB's.
        freeze_step: number of steps with exact gradients, 1 or more, and not fewer than 1 / (1 - coeff_beta): c̄ begins
            with 0. Its authors advise 15 to 25 % of a training.
        min_coeff, max_coeff: the limits of c; for BERT the authors take 0.01 and 0.3.
        coeff_beta: from 0 to below 1.
        factor_min, factor_max, factor_threshold: the limits of r.
        codec: the codec of the momentum; it must have error feedback.
        codec_for: codecs of single parameters, by name; see OneBitAdam.
        min_compress_bytes: smaller parameters' momentum travels exactly.
        group: a process group of CPU tensors; None: the engine, after `hipress.torch.init()`.

    An element whose frozen variance is zero had no gradient before the freeze, and only weight decay changes it
    afterwards. If all elements of a parameter are so, or if c̄ is zero because the parameter was zero in all steps
    before the freeze, step() raises InvalidArgument and changes nothing.

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
        freeze_step: int,
        min_coeff: float = 0.01,
        max_coeff: float = 10.0,
        coeff_beta: float = 0.9,
        factor_min: float = 0.5,
        factor_max: float = 4.0,
        factor_threshold: float = 0.1,
        codec: str = "onebit",
        codec_for: Mapping[str, str] | None = None,
        min_compress_bytes: int = MIN_COMPRESS_BYTES,
        group: dist.ProcessGroup | None = None,
    ) -> None:
        check_freeze_step(freeze_step)
        check_rates(lr, betas, eps, weight_decay)
        for low, high, names in (
            (min_coeff, max_coeff, "min_coeff, max_coeff"),
            (factor_min, factor_max, "factor_min, factor_max"),
        ):
            if not 0.0 < low <= high < float("inf"):
                raise InvalidArgument(f"{names}={low!r}, {high!r}: give two numbers above 0, the smaller one first")
        for name, value in (("coeff_beta", coeff_beta), ("factor_threshold", factor_threshold)):
            if not 0.0 <= value < 1.0:
                raise InvalidArgument(f"{name}={value!r}: give a number from 0 to below 1")
        self._freeze_step = freeze_step
        self._limits, self._decay = (min_coeff, max_coeff), coeff_beta
        self._factors, self._threshold = (factor_min, factor_max), factor_threshold
        travel = Travel(codec, dict(codec_for or {}), min_compress_bytes)
        options = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, options, travel, group)

    def _agreed(self) -> dict[str, str]:
        return {
            **super()._agreed(),
            "freeze_step": str(self._freeze_step),
            "min_coeff, max_coeff, coeff_beta": f"{self._limits}, {self._decay}",
            "factor_min, factor_max, factor_threshold": f"{self._factors}, {self._threshold}",
            "travel": str(self._travel),
        }

    @property
    def frozen(self) -> bool:
        """Whether the next step sends compressed momentum."""
        return self.steps >= self._freeze_step

    def coefficients(self) -> dict[str, float]:
        """The scaling coefficient of the last step by parameter's name, equal on all ranks; empty before the first."""
        states = {name: self.state[each] for name, each in self._parameters.items()}
        return {name: each["coefficient"] for name, each in states.items() if "coefficient" in each}

    def _step(self, step: int) -> None:
        values = {name: self._gradient(each) for name, each in self._parameters.items()}
        if step <= self._freeze_step:
            self._exchange().average(values, compressed=False)
            moves = self._warm(values)
        else:
            moves = self._frozen(values)
        if step == self._freeze_step:
            self._check_freeze(moves)
        for group, parameters in self._by_group():
            for name, parameter in parameters.items():
                move = moves[name]
                parameter.sub_(move.update, alpha=group["lr"] * move.coefficient)
                self.state[parameter].update(move.kept, coefficient=move.coefficient)
        self._count(step)

    def _warm(self, gradients: Values) -> dict[str, _Move]:
        """LAMB's step. `gradients`: averages, by parameter's name."""
        moves = {}
        for group, parameters in self._by_group():
            beta1, beta2 = group["betas"]
            for name, parameter in parameters.items():
                state, gradient = self.state[parameter], gradients[name]
                momentum = gradient.mul(1 - beta1).add_(state.get("exp_avg", torch.zeros(())), alpha=beta1)
                before = state.get("exp_avg_sq", torch.zeros(()))
                variance = gradient.square().mul_(1 - beta2).add_(before, alpha=beta2)
                update = momentum / variance.sqrt().add_(group["eps"])
                update.add_(parameter, alpha=group["weight_decay"])
                sizes, mean = (norm(parameter), norm(update)), state.get("mean_coefficient", 0.0)
                coefficient = 1.0
                if 0.0 not in sizes:
                    coefficient = _within(sizes[0] / sizes[1], *self._limits)
                    mean = self._decay * mean + (1 - self._decay) * coefficient
                kept = {"exp_avg": momentum, "exp_avg_sq": variance, "mean_coefficient": mean}
                moves[name] = _Move(update, coefficient, kept)
        return moves

    def _frozen(self, gradients: Values) -> dict[str, _Move]:
        """A step after the freeze. `gradients`: this rank's own, by parameter's name."""
        momentum: Values = {}
        for group, parameters in self._by_group():
            beta1 = group["betas"][0]
            for name, parameter in parameters.items():
                momentum[name] = gradients[name].mul_(1 - beta1).add_(self.state[parameter]["exp_avg"], alpha=beta1)
        self._exchange().average(momentum, compressed=True)
        return {
            name: self._scaled(group, parameter, momentum[name])
            for group, parameters in self._by_group()
            for name, parameter in parameters.items()
        }

    def _scaled(self, group: dict[str, Any], parameter: torch.Tensor, momentum: torch.Tensor) -> _Move:
        """`momentum`: the average, of which elements that never had a gradient become zero here."""
        state, (beta1, beta2) = self.state[parameter], group["betas"]
        variance = state["exp_avg_sq"]
        momentum.masked_fill_(variance == 0, 0.0)
        gradient = momentum.sub(state["exp_avg"], alpha=beta1).div_(1 - beta1)
        before = state.get("exp_avg_sq_fresh", variance)
        fresh = gradient.square_().mul_(1 - beta2).add_(before, alpha=beta2)
        divisor = variance.sqrt().add_(group["eps"])
        factor = float((divisor / fresh.sqrt().add_(group["eps"])).max())
        update = momentum / divisor
        if group["weight_decay"] > 0.0:
            without = norm(update)
            update.add_(parameter, alpha=group["weight_decay"])
            whole = norm(update)
            share = 1.0 if whole == 0.0 else _within(without / whole, 0.0, 1.0)
            factor = factor * share + (1.0 - share)
        last = state.get("factor", 1.0)
        factor = _within(factor, *self._factors)
        factor = _within(factor, last * (1.0 - self._threshold), last * (1.0 + self._threshold))
        kept = {"exp_avg": momentum, "exp_avg_sq_fresh": fresh, "factor": factor}
        return _Move(update, state["mean_coefficient"] * factor, kept)

    def _check_freeze(self, moves: Mapping[str, _Move]) -> None:
        check_variance({name: each.kept["exp_avg_sq"] for name, each in moves.items()}, self._freeze_step)
        for name, each in moves.items():
            if each.kept["mean_coefficient"] == 0.0:
                raise InvalidArgument(
                    f"parameter '{name}' was zero in all of the first {self._freeze_step} steps, and its scaling "
                    "coefficient would be frozen at zero: raise freeze_step, or leave this parameter out"
                )

    def _own_state(self) -> dict[str, Any]:
        return {"freeze_step": self._freeze_step}

    def _check_state(self, state_dict: Mapping[str, Any], own: Mapping[str, Any] | None) -> None:
        super()._check_state(state_dict, own)
        if own is None:
            raise InvalidArgument("the state is no state_dict() of OneBitLamb, whose coefficients it would lack")
        check_saved_freeze(state_dict, own, self._freeze_step)


def _within(value: float, low: float, high: float) -> float:
    """`value` between the limits; NaN stays NaN."""
    return low if value < low else high if value > high else value
