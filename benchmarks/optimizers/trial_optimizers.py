# SPDX-License-Identifier: Apache-2.0
"""The optimizers of a trial: torch's, and the one that averages over all ranks with HiPress."""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.optimizers.job import Trial
from benchmarks.optimizers.own import OWN, made


def plain(trial: Trial, model: nn.Module) -> torch.optim.Optimizer:
    """torch's optimizer, which averages nothing."""
    if trial.optimizer == "AdamW":
        return torch.optim.AdamW(model.parameters(), lr=trial.learning_rate)
    return torch.optim.SGD(model.parameters(), lr=trial.learning_rate, momentum=trial.momentum)


def synchronizing(trial: Trial, model: nn.Module, steps: int) -> torch.optim.Optimizer:
    """The optimizer that averages over all ranks with HiPress, for a training of `steps` steps."""
    # Imported here, because DDP trains without HiPress.
    import hipress.torch as hp

    if trial.system in OWN:
        return made(trial.system, model, trial.learning_rate, steps)
    return hp.DistributedOptimizer(plain(trial, model), model.named_parameters(), codec=trial.system)
