# SPDX-License-Identifier: Apache-2.0
"""FSDP2's replicas and optimizers of hipress.torch.optim send what another codec held back in the job before, once.
tests/torch/diloco has the same of DiLoCo."""

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
from hipress.torch.optim import OneBitAdam
from hipress.torch.process_groups import BackendOptions
from tests.torch.ddp import training
from tests.torch.ranks import run

pytestmark = pytest.mark.slow


def _sharded(mesh: Any) -> nn.Module:
    torch.manual_seed(0)
    net = training.Net()
    for each in (net.first, net.second):
        fully_shard(each, mesh=mesh)
    return fully_shard(net, mesh=mesh)


@training.in_process_group
def _shards(rank: int, way: str) -> tuple[float, float]:
    """The greatest residual of a job with onebit; and how far the sums of a model's gradients in this job and the next
    one, which has no codec, are from the exact ones. The parameters stay."""
    totals: list[torch.Tensor] = []

    def steps(net: nn.Module, numbers: range, sign: int) -> float:
        for number in numbers:
            inputs, targets = training.batch(rank, number)
            net.zero_grad()
            (net(inputs) - targets).square().mean().backward()
            gradients = [each.grad.to_local() for each in net.parameters()]  # type: ignore[union-attr]
            for place, gradient in enumerate(gradients):
                if len(totals) <= place:
                    totals.append(torch.zeros_like(gradient))
                totals[place].add_(gradient, alpha=sign)
        return max(float(each.abs().max()) for each in totals)

    def state_of(net: Any, mesh: Any, each: str) -> Any:
        if way == "hybrid":
            return fsdp.compress_hybrid(net)
        return fsdp.compress_replicas(net, mesh["rep"].get_group(), each)

    def mesh_of(each: str) -> Any:
        override = {"rep": ("hipress", BackendOptions(each))} if way == "hybrid" else {}
        return init_device_mesh("cpu", (2, 1), mesh_dim_names=("rep", "shard"), backend_override=override)

    def net_on(mesh: Any) -> nn.Module:
        return _sharded(mesh if way == "hybrid" else mesh["shard"])

    steps(_sharded(init_device_mesh("cpu", (2, 1), mesh_dim_names=("rep", "shard"))), range(6), -1)
    codecs = ("onebit", "none")
    meshes = [mesh_of(codec) for codec in codecs]
    before, after = (net_on(mesh) for mesh in meshes)
    first, then = (state_of(*each) for each in zip((before, after), meshes, codecs, strict=True))
    steps(before, range(3), 1)
    saved = first.state_dict()
    of_groups = [saved] if way == "replicas" else saved["groups"]
    residuals = [kept["residual"] for each in of_groups for kept in each["states"].values()]
    held_back = max(float(np.abs(each).max()) for each in residuals)
    then.load_state_dict(saved)
    return held_back, steps(after, range(3, 6), 1)


@pytest.mark.parametrize("way", ["replicas", "hybrid"])
def test_sharded_models_get_what_onebit_held_back(tmp_path: Path, way: str) -> None:
    for held_back, left in run(_shards, 2, str(tmp_path), way):
        assert held_back > 1e-3
        assert left < 1e-3 * held_back


_SHAPE = (60, 100)


@training.in_process_group
def _momenta(rank: int) -> tuple[float, float]:
    """How far the sum of averages is from the exact one: after steps with onebit, and after one without a codec."""
    weight = nn.Parameter(torch.zeros(_SHAPE))

    def made(codec: str) -> OneBitAdam:
        # Without a decay the momentum of a step is its gradient.
        options = {"betas": (0.0, 0.999), "freeze_step": 2, "codec": codec, "group": dist.group.WORLD}
        return OneBitAdam([("weight", weight)], **options)

    lacking = torch.zeros(_SHAPE)

    def step(optimizer: OneBitAdam, number: int) -> float:
        each = [torch.randn(_SHAPE, generator=torch.Generator().manual_seed(10 * number + one)) for one in (0, 1)]
        weight.grad = each[rank].clone()
        optimizer.step()
        lacking.add_(sum(each) / 2 - optimizer.state[weight]["exp_avg"])
        return float(lacking.abs().max())

    before = made("onebit")
    held_back = [step(before, number) for number in range(6)]
    assert held_back[1] < 1e-5
    after = made("none")
    after.load_state_dict(before.state_dict())
    return held_back[-1], step(after, 6)


def test_an_optimizer_of_compressed_momenta_gets_what_onebit_held_back(tmp_path: Path) -> None:
    for held_back, left in run(_momenta, 2, str(tmp_path)):
        assert held_back > 0.1
        assert left < 1e-5
