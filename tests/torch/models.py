# SPDX-License-Identifier: Apache-2.0
"""A small model, and its batches, loss and gradients for tests."""

from __future__ import annotations

import hashlib

import torch
from torch import nn


def mlp(seed: int = 0, hidden: int = 300) -> nn.Sequential:
    """A classifier of 16 features into 4 classes; `hidden` sets the size of its largest gradient."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(16, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 4))


def batch(rank: int, step: int, size: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    """A rank's own samples of a step; their labels come from a fixed linear problem."""
    generator = torch.Generator().manual_seed(1000 * step + rank)
    inputs = torch.randn(size, 16, generator=generator)
    weights = torch.randn(16, 4, generator=torch.Generator().manual_seed(7))
    return inputs, (inputs @ weights).argmax(1)


def loss(model: nn.Module, rank: int, step: int) -> torch.Tensor:
    inputs, labels = batch(rank, step)
    return nn.functional.cross_entropy(model(inputs), labels)


def fingerprint(model: nn.Module) -> str:
    """A digest that is equal if and only if all parameters have the same bytes."""
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().numpy().tobytes())
    return digest.hexdigest()


def gradients(model: nn.Module) -> list[torch.Tensor | None]:
    return [None if p.grad is None else p.grad.detach().clone() for p in model.parameters()]


def local_average(world_size: int, step: int, model: nn.Module) -> list[torch.Tensor]:
    """The average of all ranks' gradients, computed by one process."""
    total: list[torch.Tensor] = []
    for rank in range(world_size):
        grads = torch.autograd.grad(loss(model, rank, step), list(model.parameters()))
        total = list(grads) if not total else [a + b for a, b in zip(total, grads, strict=True)]
    return [value / world_size for value in total]
