# SPDX-License-Identifier: Apache-2.0
"""FSDP2 shards within a host, and HiPress averages between hosts: two hosts of two ranks, on the CPU."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

import hipress.torch as hp
from hipress.torch import fsdp
from tests.torch.ddp import training
from tests.torch.ranks import run

pytestmark = pytest.mark.slow


def _net() -> nn.Sequential:
    torch.manual_seed(0)
    blocks = [nn.Sequential(nn.Linear(40, 400), nn.ReLU(), nn.Linear(400, 40)) for _ in range(2)]
    return nn.Sequential(*blocks, nn.LayerNorm(40), nn.Linear(40, 1))


def _sharded(mesh: Any, **options: Any) -> nn.Sequential:
    net = _net()
    for block in net[:2]:
        fully_shard(block, mesh=mesh, **options)
    fully_shard(net, mesh=mesh, **options)
    return net


def _train(net: nn.Module, rank: int, steps: range, accumulate: bool = False) -> None:
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for step in steps:
        for part in (1, 0) if accumulate else (0,):
            if accumulate:
                net.set_requires_gradient_sync(part == 0)
            inputs, wanted = training.batch(rank, 10 * part + step)
            (net(inputs) - wanted).square().mean().backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


def _whole(net: nn.Module) -> np.ndarray[Any, Any]:
    return np.concatenate([each.full_tensor().detach().float().numpy().ravel() for each in net.parameters()])


@training.in_process_group
def _two_hosts(rank: int, codec: str, how: str) -> tuple[Any, Any, int]:
    """The parameters after some steps of compress_replicas(), the parameters of FSDP2 over all four ranks, and the
    bytes between hosts."""
    world = dist.get_world_size()
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    precision = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    options = {"mp_policy": precision} if how == "mixed precision" else {}
    net = _sharded(mesh["shard"], **options)
    state = fsdp.compress_replicas(net, mesh["replicate"].get_group(), codec)
    _train(net, rank, range(5), accumulate=how == "accumulation")
    alone = _sharded(init_device_mesh("cpu", (world,)), **options)
    _train(alone, rank, range(5), accumulate=how == "accumulation")
    return _whole(net), _whole(alone), state.sent_bytes


@pytest.mark.parametrize("how", ["plain", "mixed precision", "accumulation"])
def test_without_a_codec_it_is_fsdp_on_all_ranks(tmp_path: Path, how: str) -> None:
    for net, alone, _ in run(_two_hosts, 4, str(tmp_path), "none", how):
        # HiPress adds the two ranks of a host first, and then the hosts, so the rounding differs.
        np.testing.assert_allclose(net, alone, rtol=2e-5, atol=2e-6)


def test_with_a_codec_replicas_are_identical_and_few_bytes_cross(tmp_path: Path) -> None:
    results = run(_two_hosts, 4, str(tmp_path), "onebit", "plain")
    for net, alone, sent in results:
        np.testing.assert_array_equal(net, results[0][0])
        assert 0 < np.abs(net - alone).max() < 0.05
        matrices = 2 * 2 * 40 * 400 + 40  # a rank has half of these; the last matrix is too small
        raw = 5 * 2 * (matrices / 2) * 4 / 2  # ps with two ranks: half a shard to the owner, and half of the average
        assert sent <= raw / 25 + 5 * 8 * 42  # the second term is for headers


@training.in_process_group
def _restarted(rank: int) -> tuple[Any, Any]:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    nets, states = [], []
    for _ in range(2):
        nets.append(_sharded(mesh["shard"]))
        states.append(fsdp.compress_replicas(nets[-1], mesh["replicate"].get_group(), "onebit"))
    _train(nets[0], rank, range(3))
    with torch.no_grad():
        for new, old in zip(nets[1].parameters(), nets[0].parameters(), strict=True):
            new.copy_(old)
    states[1].load_state_dict(pickle.loads(pickle.dumps(states[0].state_dict())))
    for net in nets:
        _train(net, rank, range(3, 5))
    return _whole(nets[0]), _whole(nets[1])


def test_a_restart_with_the_states_changes_nothing(tmp_path: Path) -> None:
    for straight, restored in run(_restarted, 4, str(tmp_path)):
        np.testing.assert_array_equal(restored, straight)


@training.in_process_group
def _misused(_rank: int) -> None:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    group = mesh["replicate"].get_group()
    with pytest.raises(hp.InvalidArgument, match="call fully_shard"):
        fsdp.compress_replicas(_net(), group, "onebit")
    with pytest.raises(hp.InvalidArgument, match="mesh of one host"):
        fsdp.compress_replicas(_sharded(mesh), group, "onebit")
    net = _sharded(mesh["shard"])
    fsdp.compress_replicas(net, group, "onebit")
    net[0][0].weight.requires_grad_(False)
    loss = net(torch.randn(4, 40)).sum()
    with pytest.raises(hp.Mismatch, match="must have one in each backward pass"):
        loss.backward()


def test_misuse_is_named(tmp_path: Path) -> None:
    run(_misused, 4, str(tmp_path))


@training.in_process_group
def _automatic(rank: int) -> tuple[Any, str, str]:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    net = _sharded(mesh["shard"])
    state = fsdp.compress_replicas(net, mesh["replicate"].get_group(), "auto", optimizer="adam")
    assert state.chosen == ""
    _train(net, rank, range(75))
    resumed = _sharded(mesh["shard"])
    other = fsdp.compress_replicas(resumed, mesh["replicate"].get_group(), "auto", optimizer="adam")
    other.load_state_dict(state.state_dict())
    _train(resumed, rank, range(2))
    with pytest.raises(hp.InvalidArgument, match="give it without warmup"):
        fsdp.compress_replicas(net, mesh["replicate"].get_group(), "auto", warmup=3)
    return _whole(net), state.chosen, other.chosen


def test_replicas_choose_alike_and_stay_identical(tmp_path: Path) -> None:
    results = run(_automatic, 4, str(tmp_path))
    for net, chosen, _ in results:
        np.testing.assert_array_equal(net, results[0][0])
        assert chosen == results[0][1] != ""
