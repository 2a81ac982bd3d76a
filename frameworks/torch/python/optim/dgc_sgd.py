# SPDX-License-Identifier: Apache-2.0
"""SGD with deep gradient compression: a rank sends its largest sums of velocities and keeps the rest."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.distributed as dist

from hipress.errors import InvalidArgument
from hipress.options.travel import MIN_COMPRESS_BYTES
from hipress.options.warmup import Warmup, warmup_of
from hipress.torch.optim.sparse_messages import SparseMessages
from hipress.torch.optim.synchronizing import SynchronizingOptimizer, Values
from hipress.torch.optim.travel import Travel


class DGCSGD(SynchronizingOptimizer):
    """SGD with momentum in which each rank sends the values of largest magnitude.

    Lin et al., 2018 (arXiv 1712.01887), algorithm 1 with its four corrections. Each rank adds its own gradients g to
    a velocity u = m u + g and the velocities to a sum v = v + u (momentum correction); it sends the `ratio` of v's
    values that are largest, and makes v and u zero there (momentum factor masking). Every rank adds the values of all
    ranks, divides the sum by the number of ranks, and takes a step p = p - lr × average. Each rank clips its gradients
    to `clip_norm` / √ranks before it adds them (local clipping). In a warm-up the ranks send more values.

    Indices and values travel exactly: no value is lost, but some travel later. Small parameters and those of fewer than
    two dimensions are averaged exactly and have ordinary momentum. All ranks begin with the same parameters: call
    broadcast_parameters() first. Each rank has its own velocities and sums, and saves its own state_dict(). If another
    rank or another number of ranks loads it, velocities and sums begin at zero.

    Arguments:
        params: `model.named_parameters()`, or groups of them; float32 on the CPU.
        lr, momentum, nesterov: as in torch.optim.SGD.
        weight_decay: as in torch.optim.SGD, with momentum; every rank computes it without messages.
        ratio: the share of a parameter's values that a rank sends in a step.
        warmup: number of steps in which ranks send all values, or a Warmup with ratios:
            Warmup(steps, ratios=DGC_RATIOS).
        clip_norm: the largest norm of the sum of all ranks' gradients; None: no clipping.
        momentum_masking: whether u becomes zero where v was sent.
        min_compress_bytes: smaller parameters' gradients are averaged exactly.
        compress_vectors: whether parameters with one dimension or none are compressed, too.
        group: a process group of CPU tensors; None: the engine, after `hipress.torch.init()`.

    Raises InvalidArgument, DuplicateName, Unsupported, NotInitialized; Mismatch, with the first difference, if the
    ranks' parameters or options differ; Timeout if a rank does not make the optimizer.
    """

    def __init__(
        self,
        params: Any,
        lr: float,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        ratio: float = 0.001,
        warmup: int | Warmup | None = None,
        clip_norm: float | None = None,
        momentum_masking: bool = True,
        min_compress_bytes: int = MIN_COMPRESS_BYTES,
        compress_vectors: bool = False,
        group: dist.ProcessGroup | None = None,
    ) -> None:
        for name, value in (("lr", lr), ("weight_decay", weight_decay)):
            if not value >= 0.0:
                raise InvalidArgument(f"{name}={value!r}: give a number of 0 or more")
        if not 0.0 <= momentum < 1.0:
            raise InvalidArgument(f"momentum={momentum!r}: give a number from 0 to below 1")
        if not 0.0 < ratio <= 1.0:
            raise InvalidArgument(f"ratio={ratio!r}: give a number above 0, at most 1")
        if clip_norm is not None and not clip_norm > 0.0:
            raise InvalidArgument(f"clip_norm={clip_norm!r}: give a number above 0, or None")
        self._ratio, self._clip_norm, self._masks = ratio, clip_norm, momentum_masking
        self._warmup = warmup_of(warmup)
        if self._warmup is not None and self._warmup.codec != "none":
            raise InvalidArgument(
                "DGCSGD has no codec: give the warm-up ratios, or only steps, to send all values in them"
            )
        self._compress_vectors = compress_vectors
        travel = Travel(min_compress_bytes=min_compress_bytes)
        options = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "nesterov": nesterov}
        super().__init__(params, options, travel, group)
        self._sparse = [
            name
            for name, each in self._parameters.items()
            if 4 * each.numel() >= min_compress_bytes and (compress_vectors or each.dim() > 1)
        ]

    def _agreed(self) -> dict[str, str]:
        own = (self._ratio, self._warmup, self._clip_norm, self._masks, self._compress_vectors, self._travel)
        return {
            **super()._agreed(),
            "ratio, warmup, clip_norm, momentum_masking, compress_vectors, travel": str(own),
        }

    @property
    def ratio(self) -> float:
        """The share of the values that the next step sends."""
        return self._ratio_at(self.steps + 1)

    def _ratio_at(self, step: int) -> float:
        return self._ratio if self._warmup is None else self._warmup.ratio_at(step - 1, self._ratio)

    def _step(self, step: int) -> None:
        gradients = self._clipped({name: self._gradient(each) for name, each in self._parameters.items()})
        velocities: Values = {}
        sums: Values = {}
        for group, parameters in self._by_group():
            for name in (each for each in self._sparse if each in parameters):
                velocities[name], sums[name] = self._accumulated(name, gradients.pop(name), group)
        averages = self._exchanged(velocities, sums, self._ratio_at(step))
        if gradients:
            self._exchange().average(gradients, compressed=False)
        for group, parameters in self._by_group():
            for name, parameter in parameters.items():
                state = self.state[parameter]
                if name in averages:
                    update = averages[name]
                    state.update(velocity=velocities[name], residual=sums[name])
                else:
                    update = self._moved(state, "velocity", gradients[name], group)
                if group["weight_decay"] != 0:
                    update = update + self._moved(state, "decay_velocity", parameter * group["weight_decay"], group)
                parameter.sub_(update, alpha=group["lr"])
        self._count(step)

    def _clipped(self, gradients: Values) -> Values:
        if self._clip_norm is None:
            return gradients
        norm = math.sqrt(sum(float(each.double().square().sum()) for each in gradients.values()))
        limit = self._clip_norm / math.sqrt(self._exchange().world)
        if norm > limit:
            for each in gradients.values():
                each.mul_(limit / norm)
        return gradients

    def _accumulated(
        self, name: str, gradient: torch.Tensor, group: dict[str, Any]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The velocity u and the sum v after this gradient, in new tensors."""
        state = self.state[self._parameters[name]]
        zeros = torch.zeros_like(gradient)
        velocity = state.get("velocity", zeros) * group["momentum"]
        if group["nesterov"]:
            velocity.add_(gradient, alpha=group["momentum"])
            return velocity, state.get("residual", zeros) + velocity + gradient
        velocity.add_(gradient)
        return velocity, state.get("residual", zeros) + velocity

    def _exchanged(self, velocities: Values, sums: Values, ratio: float) -> Values:
        """The average of the values that all ranks send. Makes the sent elements of `velocities` and `sums` zero."""
        messages = SparseMessages({name: each.shape for name, each in sums.items()}, ratio)
        chosen = {name: messages.largest(name, each) for name, each in sums.items()}
        averages = messages.averages(self._exchange(), {name: (index, sums[name]) for name, index in chosen.items()})
        for name, index in chosen.items():
            sums[name].view(-1)[index] = 0.0
            if self._masks:
                velocities[name].view(-1)[index] = 0.0
        return averages

    def _moved(self, state: dict[str, Any], key: str, values: torch.Tensor, group: dict[str, Any]) -> torch.Tensor:
        """The direction that torch.optim.SGD with momentum computes from the gradients `values`."""
        velocity = values + group["momentum"] * state[key] if key in state else values.clone()
        state[key] = velocity
        return values + group["momentum"] * velocity if group["nesterov"] else velocity

    def _forget_residuals(self) -> bool:
        for name in self._sparse:
            state = self.state[self._parameters[name]]
            state.pop("velocity", None)
            state.pop("residual", None)
        return bool(self._sparse)
