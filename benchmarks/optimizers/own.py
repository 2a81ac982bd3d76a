# SPDX-License-Identifier: Apache-2.0
"""The optimizers of hipress.torch.optim that optimizers.py trains with, in place of AdamW and DistributedOptimizer."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

#: The variance is frozen after this part of the steps.
FROZEN_AFTER = 0.2
#: ZeroOneAdam's largest distance of synchronised steps: the ranks have the same parameters after so many steps.
ZERO_ONE_EVERY = 4


@dataclass(frozen=True)
class Own:
    """One of them."""

    learning_rate: float | None = None
    """None: AdamW's of the trial."""
    frozen: bool = False
    """Whether it freezes its variance after FROZEN_AFTER."""
    warmup: float = 0.0
    """The part of the steps in which the learning rate rises linearly."""
    codec: str = "onebit"
    """The codec of the values that it sends, or a name for the messages if it sends no encoded values."""


#: LAMB, DeMo and 0/1 Adam have learning rates of their own: the best of a few on seed 0 (README.md names them). "LAMB"
#: is OneBitLamb whose freeze never comes, the reference of OneBitLamb.
OWN = {
    "OneBitAdam": Own(frozen=True),
    "ZeroOneAdam": Own(0.0003, frozen=True, warmup=0.1),
    "LAMB": Own(0.01, codec="none"),
    "OneBitLamb": Own(0.01, frozen=True),
    "DeMo": Own(0.003, codec="32 coefficients"),
}


def frozen_after(steps: int) -> int:
    """Number of steps before the freeze."""
    return max(1, round(FROZEN_AFTER * steps))


def made(system: str, model: nn.Module, learning_rate: float, steps: int) -> torch.optim.Optimizer:
    """The optimizer `system`, a key of OWN."""
    from hipress.torch.optim import DeMo, OneBitAdam, OneBitLamb, ZeroOneAdam

    named, freeze = model.named_parameters(), frozen_after(steps)
    if system == "OneBitAdam":
        return OneBitAdam(named, lr=learning_rate, freeze_step=freeze)
    if system == "ZeroOneAdam":
        return ZeroOneAdam(
            named,
            lr=learning_rate,
            weight_decay=0.01,
            var_freeze_step=freeze,
            local_step_scaler=freeze,
            local_step_clipper=ZERO_ONE_EVERY,
        )
    if system == "DeMo":
        return DeMo(named, lr=learning_rate)
    freeze = steps + 1 if system == "LAMB" else freeze
    return OneBitLamb(named, lr=learning_rate, weight_decay=0.01, freeze_step=freeze)


def schedule(system: str, optimizer: torch.optim.Optimizer, steps: int) -> torch.optim.lr_scheduler.LambdaLR | None:
    """The warm-up of the learning rate; None: there is none."""
    rising = round(OWN[system].warmup * steps) if system in OWN else 0
    if rising == 0:
        return None
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / rising))
