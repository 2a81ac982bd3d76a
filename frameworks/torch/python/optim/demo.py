# SPDX-License-Identifier: Apache-2.0
"""DeMo: each rank has its own momentum, and sends the largest coefficients of the momentum's cosine transform."""

from __future__ import annotations

import hashlib
from typing import Any

import torch
import torch.distributed as dist

from hipress.errors import InvalidArgument
from hipress.torch.optim.synchronizing import SynchronizingOptimizer, Values
from hipress.torch.optim.travel import Travel
from hipress.torch.tiles.coefficients import CoefficientMessage, Largest
from hipress.torch.tiles.cosine import Cosines, whole_basis
from hipress.torch.tiles.layout import LONGEST, Tiles


class DeMo(SynchronizingOptimizer):
    """Decoupled momentum: ranks send the largest coefficients of their momentum's cosine transform.

    Peng et al., 2024 (arXiv 2411.19870), as in its authors' code. On each rank δ = decay × δ + lr × g. Each tile of
    64 × 64 elements of δ (64 of a vector) is transformed (DCT-II), its `k` coefficients of largest magnitude are sent
    to all ranks, and the rank subtracts their inverse transform from δ: the rest stays on the rank. Each coefficient
    becomes the mean over the ranks that sent it. The inverse transform of the means has the signs s, and
    p = p (1 - lr × weight_decay) - lr × s.

    The signs are the same bits on all ranks: the code computes them from sums of whole numbers. Dimensions that are no
    multiple of 64 have the fewest equal tiles that cover them, filled with zeros; a tensor of more than two dimensions
    becomes a matrix that keeps the first dimension. Where a rank's momentum of a parameter is not finite, the parameter
    becomes NaN on all ranks.

    All ranks begin with the same parameters: call broadcast_parameters() first. Each rank has its own momentum and
    saves its own state_dict(). If another rank or another number of ranks loads it, momentum begins at zero. Each
    message goes to every rank, so a rank's bytes grow with the number of ranks.

    Arguments:
        params: `model.named_parameters()`, or groups of them; float32 on the CPU.
        lr: learning rate of a sign step: far smaller than SGD's.
        decay: decay of the momentum, from 0 to below 1.
        k: number of coefficients sent for each tile, from 1 to 4,096.
        weight_decay: decoupled, as in AdamW.
        quantize_1bit: True: a coefficient travels as its sign in one bit, + for zero, and the mean is the mean of signs
            (DisTrO). False: a coefficient travels as float32.
        group: a process group of CPU tensors; None: the engine, after `hipress.torch.init()`.

    Raises InvalidArgument, DuplicateName, Unsupported, NotInitialized; Mismatch, with the first difference, if the
    ranks' parameters or options differ; Timeout if a rank does not make the optimizer.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        decay: float = 0.999,
        k: int = 32,
        weight_decay: float = 0.0,
        *,
        quantize_1bit: bool = False,
        group: dist.ProcessGroup | None = None,
    ) -> None:
        for name, value in (("lr", lr), ("weight_decay", weight_decay)):
            if not value >= 0.0:
                raise InvalidArgument(f"{name}={value!r}: give a number of 0 or more")
        if not 0.0 <= decay < 1.0:
            raise InvalidArgument(f"decay={decay!r}: give a number from 0 to below 1")
        if not isinstance(k, int) or isinstance(k, bool) or not 1 <= k <= LONGEST**2:
            raise InvalidArgument(f"k={k!r}: give a whole number from 1 to {LONGEST**2}, the elements of a tile")
        self._k, self._signs_only = k, quantize_1bit
        super().__init__(params, {"lr": lr, "decay": decay, "weight_decay": weight_decay}, Travel(), group)
        self._tiles = {name: Tiles(each.shape) for name, each in self._parameters.items()}
        self._cosines = {name: Cosines(each) for name, each in self._tiles.items()}
        self._message = CoefficientMessage(self._tiles, k, signs_only=quantize_1bit)

    def _agreed(self) -> dict[str, str]:
        # Mathematical libraries may round a cosine differently, and one different bit makes the replicas differ.
        bases = b"".join(whole_basis(length).numpy().tobytes() for length in range(1, LONGEST + 1))
        return {
            **super()._agreed(),
            "k, quantize_1bit": f"{self._k}, {self._signs_only}",
            "the cosines of its mathematical library": hashlib.sha256(bases).hexdigest(),
        }

    def _step(self, step: int) -> None:
        left: Values = {}
        largest: dict[str, Largest] = {}
        for group, parameters in self._by_group():
            for name, parameter in parameters.items():
                before = self.state[parameter].get("delta", torch.zeros(()))
                delta = self._gradient(parameter).mul_(group["lr"]).add_(before, alpha=group["decay"])
                left[name], largest[name] = self._split(name, delta)
        means = self._message.means(self._exchange().gather(self._message.encoded(largest)))
        for group, parameters in self._by_group():
            for name, parameter in parameters.items():
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                parameter.sub_(self._signs(name, means[name]), alpha=group["lr"])
                if largest[name] is not None:  # a momentum with values that are not finite is not kept
                    self.state[parameter]["delta"] = left[name]
        self._count(step)

    def _split(self, name: str, delta: torch.Tensor) -> tuple[torch.Tensor, Largest]:
        """The part of `delta` that stays on this rank, and the coefficients that it sends."""
        tiles, cosines = self._tiles[name], self._cosines[name]
        coefficients = cosines.forward(tiles.cut(delta))
        if not bool(coefficients.isfinite().all()):
            return delta, None
        index = tiles.largest(coefficients, self._message.count(name))
        values = coefficients.gather(1, index)
        sent = torch.zeros_like(coefficients).scatter_(1, index, values)
        return delta - tiles.joined(cosines.inverse(sent)), (index, values)

    def _signs(self, name: str, mean: torch.Tensor | None) -> torch.Tensor:
        if mean is None:
            return torch.full_like(self._parameters[name], torch.nan)
        return self._tiles[name].joined(self._cosines[name].inverse_signs(mean))

    def _forget_residuals(self) -> bool:
        for parameter in self._parameters.values():
            self.state[parameter].pop("delta", None)
        return True
