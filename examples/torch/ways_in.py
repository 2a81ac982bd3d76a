# SPDX-License-Identifier: Apache-2.0
"""The ways in which HiPress synchronises a PyTorch model, by name. decoder.py and resnet50.py use this module.

Each function prepares one training. The ways differ only in the returned object.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from devices import chosen
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import hipress.torch as hp
from hipress.torch import ddp, fsdp

MakeOptimizer = Callable[[nn.Module], torch.optim.Optimizer]


@dataclass
class Training:
    """A model and an optimizer that HiPress synchronises."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    sent_bytes: Callable[[], int]
    """Bytes of gradients that this rank has sent."""
    device: torch.device


def own_optimizer(model: nn.Module, make_optimizer: MakeOptimizer, codec: str) -> Training:
    """HiPress wraps the optimizer. Gradients travel over HiPress' engine while backward computes."""
    optimizer = hp.DistributedOptimizer(make_optimizer(model), model.named_parameters(), codec=codec)
    hp.broadcast_parameters(model.state_dict(), root_rank=0)
    return Training(model, optimizer, _sent_by_the_engine, _device_of(model))


def ddp_hook(model: nn.Module, make_optimizer: MakeOptimizer, codec: str) -> Training:
    """DistributedDataParallel has a communication hook. Gradients travel over the model's process group."""
    parallel = DistributedDataParallel(model)
    state = ddp.compress(parallel, codec=codec)
    return Training(parallel, make_optimizer(parallel), lambda: state.sent_bytes, _device_of(model))


def fsdp2(model: nn.Module, make_optimizer: MakeOptimizer, codec: str) -> Training:
    """FSDP2 shards within a host, which has one rank here, and HiPress averages over the hosts."""
    mesh = init_device_mesh(_device_of(model).type, (dist.get_world_size(), 1), mesh_dim_names=("replicate", "shard"))
    torch.manual_seed(0)
    fully_shard(model, mesh=mesh["shard"])
    replicas = fsdp.compress_replicas(model, mesh["replicate"].get_group(), codec=codec)
    return Training(model, make_optimizer(model), lambda: replicas.sent_bytes, _device_of(model))


def diloco(model: nn.Module, make_optimizer: MakeOptimizer, codec: str) -> Training:
    """Each rank trains alone. In every fifth step the ranks average the changes of their parameters."""
    optimizer = make_optimizer(model)
    hp.DiLoCo(model, optimizer, sync_every=5, codec=codec)
    return Training(model, optimizer, _sent_by_the_engine, _device_of(model))


WAYS = {"optimizer": own_optimizer, "ddp": ddp_hook, "fsdp": fsdp2, "diloco": diloco}
#: Ways that need a process group of torch in place of HiPress' engine.
_OVER_GROUPS = ("ddp", "fsdp")


@contextmanager
def synchronised(
    way: str, model: nn.Module, make_optimizer: MakeOptimizer, arguments: argparse.Namespace
) -> Iterator[Training]:
    """A training by one of WAYS, with the codec and on the device of the arguments. All ranks begin with the parameters
    of rank 0."""
    hp.init()
    device = chosen(arguments)
    # torchrun's rendezvous works once, so one group serves all trainings of the process.
    if way in _OVER_GROUPS and not dist.is_initialized():
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield WAYS[way](model.to(device), make_optimizer, arguments.codec)
    finally:
        hp.shutdown()


def _device_of(model: nn.Module) -> torch.device:
    return next(model.parameters()).device


def _sent_by_the_engine() -> int:
    return int(hp.counters()["bytes_sent"])
