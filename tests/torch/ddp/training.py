# SPDX-License-Identifier: Apache-2.0
"""Trainings with DistributedDataParallel that tests of the hook compare; every rank runs them."""

from __future__ import annotations

import datetime
import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import hipress.torch as hp
from hipress.torch import ddp


@contextmanager
def process_group(folder: str, timeout: float = 60.0) -> Iterator[tuple[int, int]]:
    """A Gloo group of all ranks, which meet through a new file in `folder`."""
    rank, world = int(os.environ["HIPRESS_RANK"]), int(os.environ["HIPRESS_SIZE"])
    store = dist.FileStore(f"{folder}/store", world)
    limit = datetime.timedelta(seconds=timeout)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world, timeout=limit)
    try:
        yield rank, world
    finally:
        dist.destroy_process_group()


def in_process_group(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that takes a folder, makes a process group there, and calls `function` with the rank instead
    of the folder.

    All objects that `function` makes are gone before the group is. A model that outlives its group destroys the group
    with Python's lock held. It may then wait forever for a thread of Gloo that waits for the lock.
    """

    @functools.wraps(function)
    def inside(folder: str, *arguments: Any, **options: Any) -> Any:
        with process_group(folder) as (rank, _):
            return function(rank, *arguments, **options)

    return inside


class Net(nn.Module):
    """A model with matrices that are compressed, vectors that are not, and a layer that a rank may leave out."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(40, 300)
        self.second = nn.Linear(300, 200)
        self.spare = nn.Linear(200, 200)
        self.norm = nn.LayerNorm(200)
        self.last = nn.Linear(200, 1)
        self.uses_spare = True

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.second(torch.relu(self.first(inputs))))
        if self.uses_spare:
            hidden = hidden + self.spare(hidden)
        return self.last(self.norm(hidden))


def batch(rank: int, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1000 * step + rank)
    inputs = torch.randn(16, 40, generator=generator)
    return inputs, inputs[:, :4].sum(1, keepdim=True).sin()


def fingerprint(model: nn.Module) -> bytes:
    return b"".join(each.detach().float().numpy().tobytes() for each in model.parameters())


@in_process_group
def train(
    rank: int,
    hook: dict[str, Any] | None,
    steps: int = 6,
    options: dict[str, Any] | None = None,
    *,
    prepare: Callable[[Net, int], None] | None = None,
    dtype: torch.dtype = torch.float32,
) -> tuple[bytes, float]:
    """Trains, and returns the final parameters and the last loss. `hook`: compress()'s arguments; None: torch alone."""
    if hook is not None and hook.get("carrier") == "hipress":
        hp.init()
    torch.manual_seed(0)
    net = Net().to(dtype)
    if prepare is not None:
        prepare(net, rank)
    model = DistributedDataParallel(net, bucket_cap_mb=0.3, **(options or {}))
    if hook is not None:
        ddp.compress(model, **hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    value = torch.zeros(())
    for step in range(steps):
        inputs, wanted = batch(rank, step)
        optimizer.zero_grad()
        value = (model(inputs.to(dtype)) - wanted.to(dtype)).square().mean()
        value.backward()
        optimizer.step()
    return fingerprint(net), float(value)


def without_spare_on_odd_ranks(net: Net, rank: int) -> None:
    net.uses_spare = rank % 2 == 0
