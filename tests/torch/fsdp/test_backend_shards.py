# SPDX-License-Identifier: Apache-2.0
"""FSDP2 shards a model over a group of the backend "hipress" as over one of Gloo, and so go the calls beside it."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.torch_version import TorchVersion

from hipress.torch.process_groups import BackendOptions, CompressingGroup
from tests.torch.ddp import training
from tests.torch.ranks import run

pytestmark = pytest.mark.slow


@training.in_process_group
def _trained(rank: int, codec: str) -> tuple[list[bytes], list[bytes], bool]:
    """The parameters after training with shards over the backend, and over Gloo; whether the backend was used."""
    results, used = [], False
    for options in (BackendOptions(codec), None):
        chosen: dict[str, Any] = {} if options is None else {"backend_override": {"shard": ("hipress", options)}}
        mesh: Any = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("shard",), **chosen)
        used = used or isinstance(mesh.get_group(), CompressingGroup)
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(40, 201), nn.ReLU(), nn.Linear(201, 1))
        fully_shard(net[0], mesh=mesh)
        fully_shard(net, mesh=mesh)
        optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
        for step in range(4):
            inputs, wanted = training.batch(rank, step)
            optimizer.zero_grad()
            (net(inputs) - wanted).square().mean().backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
        results.append([each.full_tensor().detach().numpy().tobytes() for each in net.parameters()])  # type: ignore
    return results[0], results[1], used


@pytest.mark.parametrize("codec", ["none", "onebit"])
def test_shards_over_the_backend_train_to_the_bits_of_gloo(tmp_path: Path, codec: str) -> None:
    """With a codec, too: nothing hands these gradients over."""
    for backend, gloo, used in run(_trained, 3, str(tmp_path), codec):
        assert used
        assert backend == gloo


@training.in_process_group
def _beside(rank: int) -> None:
    limit = datetime.timedelta(seconds=2)
    group: Any = dist.new_group(backend="hipress", pg_options=BackendOptions("none"), timeout=limit)
    tensors = [torch.full((count,), rank + 1.0) for count in (3, 40)]
    with dist._coalescing_manager(group, async_ops=True) as manager:
        for each in tensors:
            dist.all_reduce(each, group=group)
    manager.wait()
    assert [each.unique().tolist() for each in tensors] == [[3.0], [3.0]]
    if TorchVersion(torch.__version__) >= TorchVersion("2.14"):  # before, torch has it for Gloo's own groups alone
        dist.monitored_barrier(group)
    dist.barrier()
    if rank == 0:
        with pytest.raises(RuntimeError, match=r"(?i)timed out"):
            dist.all_reduce(torch.ones(3), group=group)
    dist.barrier()


def test_coalescing_barriers_and_time_limits_are_those_of_gloo(tmp_path: Path) -> None:
    run(_beside, 2, str(tmp_path))
