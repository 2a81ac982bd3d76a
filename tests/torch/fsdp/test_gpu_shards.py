# SPDX-License-Identifier: Apache-2.0
"""FSDP2 on an NVIDIA GPU, over NCCL: replicas stay identical, and come near those of torch alone. `make test-gpu` runs
this, and fails without a GPU, which all ranks share."""

from __future__ import annotations

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
from hipress.torch.process_groups.backend import BackendOptions
from tests.torch.ddp import training
from tests.torch.process_groups import shared_gpu
from tests.torch.process_groups.shared_gpu import sharing_the_gpu
from tests.torch.ranks import run

pytestmark = pytest.mark.slow

NAMES = ("replicate", "shard")


@pytest.fixture(autouse=True)
def _gpu() -> None:
    shared_gpu.required()


def _sharded(mesh: Any) -> Any:
    torch.manual_seed(0)
    blocks = [nn.Sequential(nn.Linear(40, 400), nn.ReLU(), nn.Linear(400, 40)) for _ in range(2)]
    net = nn.Sequential(*blocks, nn.LayerNorm(40), nn.Linear(40, 1)).to(shared_gpu.DEVICE)
    for block in net[:2]:
        fully_shard(block, mesh=mesh)
    return fully_shard(net, mesh=mesh)


def _parameters(net: nn.Module, rank: int) -> np.ndarray[Any, Any]:
    """All parameters after some steps."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for step in range(5):
        inputs, wanted = (each.to(shared_gpu.DEVICE) for each in training.batch(rank, step))
        optimizer.zero_grad()
        (net(inputs) - wanted).square().mean().backward()
        optimizer.step()
    return np.concatenate([each.full_tensor().detach().cpu().numpy().ravel() for each in net.parameters()])


def _of_all_ranks(rank: int) -> np.ndarray[Any, Any]:
    """The same of FSDP2 alone, with shards on all ranks."""
    return _parameters(_sharded(init_device_mesh("cuda", (dist.get_world_size(),))), rank)


@sharing_the_gpu
def _between_hosts(rank: int, topology: str) -> tuple[Any, Any]:
    mesh = init_device_mesh("cuda", (dist.get_world_size() // 2, 2), mesh_dim_names=NAMES)
    net = _sharded(mesh["shard"])
    fsdp.compress_replicas(net, mesh["replicate"].get_group(), "int8", topology=topology)
    return _parameters(net, rank), _of_all_ranks(rank)


@sharing_the_gpu
def _between_shards(rank: int) -> tuple[Any, Any]:
    net = _sharded(init_device_mesh("cuda", (dist.get_world_size(),)))
    fsdp.compress_reduce_scatter(net, "int8")
    return _parameters(net, rank), _of_all_ranks(rank)


@sharing_the_gpu
def _all_between_shards(rank: int) -> tuple[Any, Any]:
    net = _sharded(init_device_mesh("cuda", (dist.get_world_size(),)))
    fsdp.compress_all_gather(net, "int8")
    fsdp.compress_reduce_scatter(net, "int8")
    return _parameters(net, rank), _of_all_ranks(rank)


@sharing_the_gpu
def _by_the_backend(rank: int) -> tuple[Any, Any]:
    chosen = {"replicate": ("hipress", BackendOptions("int8"))}
    shape = (dist.get_world_size() // 2, 2)
    net = _sharded(init_device_mesh("cuda", shape, mesh_dim_names=NAMES, backend_override=chosen))
    fsdp.compress_hybrid(net)
    return _parameters(net, rank), _of_all_ranks(rank)


@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize(
    ("program", "chosen", "limit"),
    [
        (_between_hosts, ("ps",), 1e-3),
        (_between_hosts, ("ring",), 1e-3),
        (_between_shards, (), 1e-3),
        (_all_between_shards, (), 0.1),  # this training amplifies rounded weights, with bf16 as much as with int8
        (_by_the_backend, (), 1e-3),
    ],
)
def test_parameters_are_alike_on_all_ranks_and_near_those_of_torch(
    tmp_path: Path, program: Any, chosen: tuple[str, ...], limit: float, world: int
) -> None:
    results = run(program, world, str(tmp_path), "nccl", *chosen)
    for net, alone in results:
        np.testing.assert_array_equal(net, results[0][0])
        assert np.isfinite(net).all()
        assert np.abs(net - alone).max() < limit
