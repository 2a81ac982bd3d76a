# SPDX-License-Identifier: Apache-2.0
# mypy: disable-error-code="import-not-found"
"""The systems of PyTorch. Each makes a training step from a model and an optimizer, as users' code does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

from benchmarks.training.models import Workload

#: Learning rate of plain SGD. The models need not learn anything here.
LEARNING_RATE = 1e-3


@dataclass(frozen=True)
class Training:
    """A step on inputs and targets, and the model that it trains."""

    step: Callable[[torch.Tensor, torch.Tensor], None]
    model: nn.Module
    chosen: Callable[[], str] | None = None
    """Returns the system's choice; empty text while it measures. None: the codec is fixed."""


def _training(model: nn.Module, optimizer: Any, workload: Workload) -> Training:
    def step(inputs: torch.Tensor, targets: torch.Tensor) -> None:
        optimizer.zero_grad()
        workload.loss(model(inputs), targets).backward()
        optimizer.step()

    return Training(step, model)


def _sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)


def alone(workload: Workload) -> Training:
    """The training that only computes: the lower bound of all systems."""
    model = workload.make()
    return _training(model, _sgd(model), workload)


def ours(workload: Workload, codec: str, topology: str) -> Training:
    """hipress.torch.DistributedOptimizer."""
    import hipress.torch as hp

    model = workload.make()
    hp.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hp.DistributedOptimizer(_sgd(model), model.named_parameters(), codec=codec, topology=topology)
    return _training(model, optimizer, workload)


def ddp(workload: Workload) -> Training:
    """DistributedDataParallel."""
    model = DistributedDataParallel(workload.make())
    return _training(model, _sgd(model), workload)


def ddp_half(workload: Workload, hook: Any) -> Training:
    """DistributedDataParallel with torch's own hook for 16 bits."""
    model = DistributedDataParallel(workload.make())
    model.register_comm_hook(None, hook)
    return _training(model, _sgd(model), workload)


def hooked(workload: Workload, codec: str, topology: str = "auto") -> Training:
    """DistributedDataParallel with HiPress' hook."""
    import hipress.torch.ddp

    model = DistributedDataParallel(workload.make())
    hipress.torch.ddp.compress(model, codec, topology=topology)
    return _training(model, _sgd(model), workload)


def automatic(workload: Workload) -> Training:
    """DistributedDataParallel with HiPress' hook and codec "auto". The optimizer has momentum, because trainings have
    cleared codecs for it. Momentum costs one more pass over the parameters, which the other systems do not have."""
    import hipress.torch.ddp

    model = DistributedDataParallel(workload.make())
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=0.9)
    state = hipress.torch.ddp.compress(model, "auto", optimizer=optimizer)
    return replace(_training(model, optimizer, workload), chosen=lambda: state.chosen)


def horovod(workload: Workload) -> Training:
    """horovod.torch.DistributedOptimizer. Horovod must run."""
    import horovod.torch as hvd

    model = workload.make()
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(_sgd(model), model.named_parameters())
    return _training(model, optimizer, workload)


PEERS: dict[str, Callable[[Workload], Training]] = {
    "ddp": ddp,
    "ddp-fp16": partial(ddp_half, hook=default_hooks.fp16_compress_hook),
    "ddp-bf16": partial(ddp_half, hook=default_hooks.bf16_compress_hook),
    "hook-int8": partial(hooked, codec="int8"),
    "hook-int8-ps": partial(hooked, codec="int8", topology="ps"),
    "hook-int4": partial(hooked, codec="int4"),
    "hook-onebit": partial(hooked, codec="onebit"),
    "hook-auto": automatic,
    "horovod": horovod,
}


def make(system: str, workload: Workload) -> Training:
    """The training with a system: "alone", a peer's name, or "hipress CODEC TOPOLOGY"."""
    if system == "alone":
        return alone(workload)
    if system in PEERS:
        return PEERS[system](workload)
    _, codec, topology = system.split(" ")
    return ours(workload, codec, topology)
