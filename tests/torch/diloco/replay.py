# SPDX-License-Identifier: Apache-2.0
"""Streaming DiLoCo (arXiv 2501.18512, algorithm 2) of all ranks in one process: the values that DiLoCo() must
compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from tests.torch import models
from tests.torch.tiles import plain

Values = dict[str, np.ndarray[Any, Any]]


def values_of(model: nn.Module) -> Values:
    return {name: each.detach().numpy().copy() for name, each in model.named_parameters()}


def inner_optimizer(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=0.01)


def inner_step(model: nn.Module, optimizer: torch.optim.Optimizer, rank: int, step: int) -> None:
    optimizer.zero_grad()
    models.loss(model, rank, step).backward()
    optimizer.step()


def _sparse_average(name: str, outer: Values, inner: list[Values], residuals: list[Values], decay: float) -> Any:
    total = np.zeros_like(outer[name])
    for own, residual in zip(inner, residuals, strict=True):
        wanted = np.float32(decay) * residual[name] + (outer[name] - own[name])
        sent = plain.sent(wanted)
        residual[name] = wanted - sent
        total += sent
    return total * np.float32(1 / len(inner))


def replayed(
    world: int,
    steps: int,
    fragments: list[list[str]],
    sync_every: int,
    overlap_steps: int = 0,
    mix: float = 0.0,
    lr: float = 0.7,
    momentum: float = 0.9,
    hidden: int = 24,
    decay: float | None = None,
) -> list[tuple[Values, list[Values]]]:
    """The outer parameters and each rank's own parameters after each step. Nesterov: v = m v + d; x = x - lr (d + m v).

    `decay`: the decay of SparseLoCo's residuals (arXiv 2508.15706, algorithm 1); None: all values travel.
    """
    replicas = [models.mlp(0, hidden) for _ in range(world)]
    optimizers = [inner_optimizer(model) for model in replicas]
    outer = values_of(replicas[0])
    velocity = {name: np.zeros_like(each) for name, each in outer.items()}
    residuals = [{name: np.zeros_like(each) for name, each in outer.items()} for _ in range(world)]
    averages: dict[int, tuple[int, Values]] = {}
    history = []
    for step in range(1, steps + 1):
        for rank, (model, optimizer) in enumerate(zip(replicas, optimizers, strict=True)):
            inner_step(model, optimizer, rank, step)
        for number, names in enumerate(fragments):
            offset = (number + 1) * sync_every // len(fragments)
            if step >= offset and (step - offset) % sync_every == 0:
                inner = [values_of(model) for model in replicas]
                if decay is None:
                    average = {name: sum(outer[name] - each[name] for each in inner) / world for name in names}
                else:
                    average = {name: _sparse_average(name, outer, inner, residuals, decay) for name in names}
                averages[step + overlap_steps] = (number, average)
        if step in averages:
            number, average = averages.pop(step)
            for name in fragments[number]:
                velocity[name] = momentum * velocity[name] + average[name]
                outer[name] = outer[name] - lr * (average[name] + momentum * velocity[name])
                with torch.no_grad():
                    for model in replicas:
                        own = dict(model.named_parameters())[name]
                        own.copy_(mix * own + (1 - mix) * torch.from_numpy(outer[name]).float())
        history.append((dict(outer), [values_of(model) for model in replicas]))
    return history
