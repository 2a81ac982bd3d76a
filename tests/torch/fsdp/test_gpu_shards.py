# SPDX-License-Identifier: Apache-2.0
"""FSDP2 on NVIDIA GPUs, over NCCL: replicas stay identical, and come near those of torch alone. `make test-gpu` runs
this, and fails without a GPU.

NCCL wants a GPU for each rank. With one GPU there is one rank, and it encodes and decodes its own gradients.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from hipress.torch import fsdp
from tests.compll.emit.cuda.device import require_gpu
from tests.torch.ddp import training
from tests.torch.ranks import run

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _gpu() -> None:
    require_gpu(None if torch.cuda.is_available() else "torch finds no GPU, or was built without CUDA")


def _in_nccl_group(function: Callable[[int, torch.device], Any]) -> Callable[[str], Any]:
    """Returns a function that takes a folder, makes a group over NCCL there, and calls `function` with rank and GPU."""

    @functools.wraps(function)
    def inside(folder: str) -> Any:
        rank, world = int(os.environ["HIPRESS_RANK"]), int(os.environ["HIPRESS_SIZE"])
        torch.cuda.set_device(rank)
        store = dist.FileStore(f"{folder}/store", world)
        dist.init_process_group("nccl", store=store, rank=rank, world_size=world)
        try:
            return function(rank, torch.device("cuda", rank))
        finally:
            dist.destroy_process_group()

    return inside


def _sharded(mesh: Any, device: torch.device) -> Any:
    torch.manual_seed(0)
    blocks = [nn.Sequential(nn.Linear(40, 400), nn.ReLU(), nn.Linear(400, 40)) for _ in range(2)]
    net = nn.Sequential(*blocks, nn.LayerNorm(40), nn.Linear(40, 1)).to(device)
    for block in net[:2]:
        fully_shard(block, mesh=mesh)
    return fully_shard(net, mesh=mesh)


def _parameters(net: nn.Module, rank: int, device: torch.device) -> np.ndarray[Any, Any]:
    """All parameters after some steps."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for step in range(5):
        inputs, wanted = (each.to(device) for each in training.batch(rank, step))
        optimizer.zero_grad()
        (net(inputs) - wanted).square().mean().backward()
        optimizer.step()
    return np.concatenate([each.full_tensor().detach().cpu().numpy().ravel() for each in net.parameters()])


@_in_nccl_group
def _between_hosts(rank: int, device: torch.device) -> tuple[Any, Any]:
    world = dist.get_world_size()
    mesh = init_device_mesh("cuda", (world, 1), mesh_dim_names=("replicate", "shard"))
    net = _sharded(mesh["shard"], device)
    fsdp.compress_replicas(net, mesh["replicate"].get_group(), "int8")
    alone = _sharded(init_device_mesh("cuda", (world,)), device)
    return _parameters(net, rank, device), _parameters(alone, rank, device)


@_in_nccl_group
def _between_shards(rank: int, device: torch.device) -> tuple[Any, Any]:
    mesh = init_device_mesh("cuda", (dist.get_world_size(),))
    net = _sharded(mesh, device)
    fsdp.compress_reduce_scatter(net, "int8")
    return _parameters(net, rank, device), _parameters(_sharded(mesh, device), rank, device)


@pytest.mark.parametrize("program", [_between_hosts, _between_shards])
def test_parameters_are_alike_on_all_ranks_and_near_those_of_torch(tmp_path: Path, program: Any) -> None:
    results = run(program, min(2, torch.cuda.device_count()), str(tmp_path))
    for net, alone in results:
        np.testing.assert_array_equal(net, results[0][0])
        assert np.isfinite(net).all()
        assert np.abs(net - alone).max() < 1e-3
