# SPDX-License-Identifier: Apache-2.0
"""FSDP2 within a host, DiLoCo between hosts: two hosts of two ranks, on the CPU."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard

import hipress.torch as hp
from hipress.torch.diloco import SparseLoCo
from tests.torch.ddp import training
from tests.torch.ranks import run

pytestmark = pytest.mark.slow

Values = dict[str, np.ndarray[Any, Any]]


def _net() -> nn.Sequential:
    torch.manual_seed(0)
    # Rows that two ranks do not share evenly, and a parameter of which the second rank has nothing.
    return nn.Sequential(nn.Sequential(nn.Linear(40, 131), nn.ReLU(), nn.Linear(131, 40)), nn.Linear(40, 1))


def _sharded(mesh: DeviceMesh) -> nn.Sequential:
    net = _net()
    for block in net:
        fully_shard(block, mesh=mesh)
    return fully_shard(net, mesh=mesh)


def _step(net: nn.Module, optimizer: torch.optim.Optimizer, step: int, ranks: list[int]) -> None:
    """With the mean gradient of these ranks' batches."""
    optimizer.zero_grad()
    for rank in ranks:
        inputs, wanted = training.batch(rank, step)
        ((net(inputs) - wanted).square().mean() / len(ranks)).backward()
    optimizer.step()


def _inner(net: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)


def _whole(net: nn.Module) -> Values:
    return {
        name: getattr(each, "full_tensor", lambda each=each: each)().detach().numpy().copy()
        for name, each in net.named_parameters()
    }


def _mesh() -> DeviceMesh:
    return init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))


@training.in_process_group
def _trained(rank: int, options: Mapping[str, Any], sharded: bool) -> tuple[Values, Values, float]:
    """The outer parameters and this host's own after 10 steps, and the loss of the outer ones."""
    mesh = _mesh()
    group = mesh["replicate"].get_group()
    net = _sharded(mesh["shard"]) if sharded else _net()
    optimizer = _inner(net)
    diloco = hp.DiLoCo(net, optimizer, group=group, **options)
    host = rank // 2
    for step in range(10):
        _step(net, optimizer, step, [rank] if sharded else [2 * host, 2 * host + 1])
    with diloco.outer_parameters():
        outer = _whole(net)
        inputs, wanted = training.batch(0, 100)
        with torch.no_grad():
            loss = (net(inputs) - wanted).square().mean().item()
    own = _whole(net)
    with torch.no_grad():
        assert (net(inputs) - wanted).square().mean().item() != loss  # the gathered outer parameters are gone
    diloco.detach()
    return outer, own, loss


@pytest.mark.parametrize(
    "options",
    [
        {"sync_every": 3},
        {"preset": "streaming", "sync_every": 4, "fragments": 2, "overlap_steps": 1},
    ],
    ids=["diloco", "streaming"],
)
def test_shards_train_as_whole_parameters_do(options: dict[str, Any], tmp_path: Path) -> None:
    for name in ("sharded", "whole"):
        (tmp_path / name).mkdir()
    sharded = run(_trained, 4, str(tmp_path / "sharded"), options, True)
    whole = run(_trained, 4, str(tmp_path / "whole"), options, False)
    start = {name: each.detach().numpy() for name, each in _net().named_parameters()}
    for (outer, own, loss), (expected, expected_own, expected_loss) in zip(sharded, whole, strict=True):
        assert loss == pytest.approx(expected_loss, rel=1e-4)
        for name, each in outer.items():
            assert np.array_equal(each, sharded[0][0][name])
            np.testing.assert_allclose(each, expected[name], rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(own[name], expected_own[name], rtol=1e-5, atol=1e-6)
            assert np.abs(each - start[name]).max() > 1e-4


@training.in_process_group
def _restarted(rank: int, options: Mapping[str, Any]) -> list[tuple[Values, Values]]:
    mesh = _mesh()
    group = mesh["replicate"].get_group()

    def made() -> Any:
        net = _sharded(mesh["shard"])
        optimizer = _inner(net)
        return net, optimizer, hp.DiLoCo(net, optimizer, group=group, sync_every=4, fragments=2, **options)

    results = []
    net, optimizer, diloco = made()
    file = io.BytesIO()
    for step in range(10):
        if step == 5:
            own = {name: each.to_local() for name, each in net.state_dict().items()}
            torch.save([own, diloco.state_dict()], file)
            moments = optimizer.state_dict()
            momenta = {key: each["momentum_buffer"].to_local().clone() for key, each in moments["state"].items()}
        _step(net, optimizer, step, [rank])
    for _ in range(2):
        with diloco.outer_parameters():
            outer = _whole(net)
        results.append((outer, _whole(net)))
        diloco.detach()
        if len(results) == 2:
            break
        file.seek(0)
        own, state = torch.load(file, weights_only=True)
        net, optimizer, diloco = made()
        with torch.no_grad():
            for name, each in net.named_parameters():
                each.to_local().copy_(own[name])
        optimizer.load_state_dict(moments)
        for key, each in momenta.items():
            optimizer.state[list(net.parameters())[key]]["momentum_buffer"].to_local().copy_(each)
        diloco.load_state_dict(state)
        for step in range(5, 10):
            _step(net, optimizer, step, [rank])
    return results


@pytest.mark.parametrize("options", [{"codec": SparseLoCo(k=8)}, {"codec": "onebit"}], ids=["sparseloco", "onebit"])
def test_a_restart_changes_nothing(options: dict[str, Any], tmp_path: Path) -> None:
    for through, restored in run(_restarted, 4, str(tmp_path), options):
        for one, other in zip(through, restored, strict=True):
            for name, each in one.items():
                assert np.array_equal(each, other[name])


@training.in_process_group
def _misused(_rank: int) -> None:
    mesh = _mesh()
    between, within = mesh["replicate"].get_group(), mesh["shard"].get_group()
    net = _sharded(mesh["shard"])
    with pytest.raises(hp.Mismatch, match="the parameters' shards"):
        hp.DiLoCo(net, _inner(net), group=within)
    hybrid = _sharded(mesh)
    with pytest.raises(hp.InvalidArgument, match="averages its gradients over hosts in every step"):
        hp.DiLoCo(hybrid, _inner(hybrid), group=between)
    from hipress.torch.diloco.checks import trained_parameters

    with pytest.raises(hp.Unsupported, match=r"sharded \(FSDP2\).*give group="):
        trained_parameters(net, over_group=False)
    dist.barrier()


def test_what_it_refuses(tmp_path: Path) -> None:
    run(_misused, 4, str(tmp_path))
