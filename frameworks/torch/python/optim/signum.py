# SPDX-License-Identifier: Apache-2.0
"""Signum: ranks vote for the sign of the momentum."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from hipress.errors import InvalidArgument
from hipress.torch.optim.synchronizing import SynchronizingOptimizer, Values
from hipress.torch.optim.travel import Travel


class Signum(SynchronizingOptimizer):
    """Each rank sends the signs of its momentum; the sign that most ranks sent is the direction of the step.

    Bernstein et al., 2019 (arXiv 1810.05291), algorithm 1, with decoupled weight decay. On each rank
    m = β m + (1 - β) g; each element's sign travels as one bit, + for zero; p = p (1 - lr × weight_decay) - lr × s with
    s = 1, -1, or 0 if equally many ranks sent + and -. There is no error feedback: a sign has no size. The learning
    rate is far smaller than SGD's, as AdamW's is. Where a rank's momentum of a parameter is not finite, the parameter
    becomes NaN on all ranks.

    All ranks begin with the same parameters: call broadcast_parameters() first. Each rank has its own momentum and
    saves its own state_dict(). If another rank or another number of ranks loads it, momentum begins at zero.

    Arguments:
        params: `model.named_parameters()`, or groups of them; float32 on the CPU.
        lr, momentum, weight_decay: as above; momentum is β, from 0 to below 1.
        group: a process group of CPU tensors; None: the engine, after `hipress.torch.init()`.

    Raises InvalidArgument, DuplicateName, Unsupported, NotInitialized; Mismatch, with the first difference, if the
    ranks' parameters or options differ; Timeout if a rank does not make the optimizer.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-4,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        *,
        group: dist.ProcessGroup | None = None,
    ) -> None:
        for name, value in (("lr", lr), ("weight_decay", weight_decay)):
            if not value >= 0.0:
                raise InvalidArgument(f"{name}={value!r}: give a number of 0 or more")
        if not 0.0 <= momentum < 1.0:
            raise InvalidArgument(f"momentum={momentum!r}: give a number from 0 to below 1")
        options = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay}
        super().__init__(params, options, Travel(), group)

    def _step(self, step: int) -> None:
        momentum: Values = {}
        for group, parameters in self._by_group():
            beta = group["momentum"]
            for name, parameter in parameters.items():
                before = self.state[parameter].get("momentum_buffer", torch.zeros(()))
                momentum[name] = self._gradient(parameter).mul_(1 - beta).add_(before, alpha=beta)
        voted = self._voted(momentum)
        for group, parameters in self._by_group():
            for name, parameter in parameters.items():
                parameter.mul_(1 - group["lr"] * group["weight_decay"]).sub_(voted[name], alpha=group["lr"])
                self.state[parameter]["momentum_buffer"] = momentum[name]
        self._count(step)

    def _voted(self, momentum: Values) -> Values:
        """The vote: 1, 0 or -1 for each element. A message has one byte for each parameter, 1 if its momentum is
        finite, and then the signs.
        """
        finite = np.array([bool(each.isfinite().all()) for each in momentum.values()], np.uint8)
        flat = torch.cat([each.view(-1) for each in momentum.values()]).numpy()
        message = torch.from_numpy(np.concatenate([finite, np.packbits(flat >= 0)]))
        votes = np.zeros(flat.size, np.int32)
        for row in self._exchange().gather(message).numpy():
            finite &= row[: finite.size]
            votes += np.unpackbits(row[finite.size :], count=flat.size)
        signs = torch.from_numpy(np.sign(2 * votes - self._exchange().world).astype(np.float32))
        parts = signs.split([each.numel() for each in momentum.values()])
        return {
            name: part.view(each.shape) if known else torch.full_like(each, torch.nan)
            for (name, each), part, known in zip(momentum.items(), parts, finite, strict=True)
        }

    def _forget_residuals(self) -> bool:
        for parameter in self._parameters.values():
            self.state[parameter].pop("momentum_buffer", None)
        return True
