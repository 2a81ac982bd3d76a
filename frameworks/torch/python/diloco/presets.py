# SPDX-License-Identifier: Apache-2.0
"""The published ways to synchronise seldom, with their constants."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from hipress.errors import InvalidArgument
from hipress.torch.diloco.sparseloco import SparseLoCo


@dataclass(frozen=True)
class Preset:
    """What DiLoCo() takes where it is not told otherwise."""

    sync_every: int
    """H, inner steps."""
    fragments: int
    """P."""
    overlap_steps: int
    """τ, inner steps."""
    mix: float
    """α."""
    outer_lr: float
    """Of torch.optim.SGD, the outer optimizer."""
    outer_momentum: float
    """Nesterov's; 0: none."""
    codec: str | SparseLoCo = "none"
    """Of the pseudo-gradients."""

    def outer_optimizer(self, parameters: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
        """The preset's outer optimizer over `parameters`."""
        momentum = self.outer_momentum
        return torch.optim.SGD(parameters, lr=self.outer_lr, momentum=momentum, nesterov=momentum > 0)


PRESETS = {
    # arXiv 2311.08105: H, and the outer optimizer of sections 2 and 3.
    "diloco": Preset(500, 1, 0, 0.0, outer_lr=0.7, outer_momentum=0.9),
    # arXiv 2501.18512: H, τ and α. The paper's fragments are three transformer blocks each, so P depends on the model.
    # The outer optimizer is DiLoCo's.
    "streaming": Preset(100, 4, 1, 0.5, outer_lr=0.7, outer_momentum=0.9),
    # arXiv 2508.15706: the residual takes the place of the outer momentum. H is that of the authors' code.
    "sparseloco": Preset(30, 1, 0, 0.0, outer_lr=1.0, outer_momentum=0.0, codec=SparseLoCo()),
    # arXiv 1805.09767: parameters are averaged, which is outer SGD with learning rate 1. H is HiPress' choice.
    "local_sgd": Preset(8, 1, 0, 0.0, outer_lr=1.0, outer_momentum=0.0),
}


def preset(name: str) -> Preset:
    """Raises InvalidArgument for a name that is not in PRESETS."""
    if name not in PRESETS:
        raise InvalidArgument(f"preset={name!r}: choose one of {', '.join(map(repr, PRESETS))}")
    return PRESETS[name]
