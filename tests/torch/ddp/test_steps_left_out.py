# SPDX-License-Identifier: Apache-2.0
"""Steps that a loss scaler leaves out, and parameters that no rank used: DistributedDataParallel and FSDP2 throw such
averages away, so what codecs keep is afterwards what it was before."""

from __future__ import annotations

import math
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
from torch.nn.parallel import DistributedDataParallel

import hipress.torch as hp
from hipress.torch import ddp, fsdp
from hipress.torch.process_groups import BackendOptions
from tests.torch.ddp import training
from tests.torch.ranks import run

pytestmark = pytest.mark.slow

States = dict[str, dict[str, Any]]


def _same(before: Any, after: Any) -> bool:
    """States that are missing before are zeros after."""
    if isinstance(after, dict):
        return all(_same(None if before is None else before.get(key), each) for key, each in after.items())
    return not after.any() if before is None else np.array_equal(before, after)


def _any(states: Any) -> bool:
    return any(map(_any, states.values())) if isinstance(states, dict) else bool(states.any())


def _states(state: ddp.HookState) -> Any:
    """What codecs keep, without the numbers of steps and the checksum of all that the engine adds."""
    states = state.state_dict()["states"]
    return {key: _copied(each) for key, each in states.items() if not key.endswith((":steps", ":sum", "hipress"))}


def _copied(states: Any) -> Any:
    return {key: _copied(each) for key, each in states.items()} if isinstance(states, dict) else np.array(states)


def _poisoned_once(parameter: nn.Parameter) -> None:
    handle = parameter.register_hook(lambda gradient: (handle.remove(), gradient * math.inf)[1])


@training.in_process_group
def _scaled(rank: int, codec: str, poisons: dict[int, str | None], carrier: ddp.state.Carrier) -> bytes:
    if carrier == "hipress":
        hp.init()
    torch.manual_seed(0)
    net = training.Net()
    model = DistributedDataParallel(net, bucket_cap_mb=0.05)
    # The factor is 1 in float32: the scale of the training beside does not change.
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, backoff_factor=math.nextafter(1, 0))
    state = ddp.compress(model, codec=codec, codec_for={"spare.weight": "none"}, scaler=scaler, carrier=carrier)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    number = 0
    for step in range(9):
        poisoned = step in poisons
        inputs, wanted = training.batch(rank, number)
        optimizer.zero_grad()
        loss = (model(inputs) - wanted).square().mean()
        if poisoned and rank == 1:
            if poisons[step] is None:
                loss = loss * math.nan
            else:
                _poisoned_once(net.get_parameter(str(poisons[step])))
        before = _states(state)
        parameters = training.fingerprint(net)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        if poisoned:
            assert _same(before, _states(state)), (rank, step, poisons[step])
            assert training.fingerprint(net) == parameters
        else:
            assert all(torch.isfinite(each.grad).all() for each in net.parameters()), (rank, step)
            number += 1
    assert number == 9 - len(poisons)
    return training.fingerprint(net) + number.to_bytes(1, "little")


@training.in_process_group
def _straight(rank: int, codec: str, steps: int, carrier: ddp.state.Carrier) -> bytes:
    if carrier == "hipress":
        hp.init()
    torch.manual_seed(0)
    net = training.Net()
    model = DistributedDataParallel(net, bucket_cap_mb=0.05)
    ddp.compress(model, codec=codec, codec_for={"spare.weight": "none"}, carrier=carrier)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(steps):
        inputs, wanted = training.batch(rank, step)
        optimizer.zero_grad()
        (1024.0 * (model(inputs) - wanted).square().mean()).backward()
        for each in model.parameters():
            assert each.grad is not None
            each.grad.mul_(1 / 1024.0)
        optimizer.step()
    return training.fingerprint(net) + steps.to_bytes(1, "little")


def _folder(at: Path, name: str) -> str:
    (at / name).mkdir()
    return str(at / name)


@pytest.mark.parametrize(
    ("codec", "carrier"),
    [
        ("onebit", "group"),
        ("int8_shared", "group"),
        ("powersgd(min_ratio=1)", "group"),
        ("topk(ratio=0.05)", "hipress"),
        ("powersgd(min_ratio=1)", "hipress"),
    ],
)
def test_steps_that_a_loss_scaler_leaves_out_leave_no_trace(tmp_path: Path, codec: str, carrier: str) -> None:
    poisons = {2: None, 3: "second.weight", 4: "norm.bias", 7: "spare.weight"}
    with_overflows = run(_scaled, 2, _folder(tmp_path, "with"), codec, poisons, carrier)
    without = run(_straight, 2, _folder(tmp_path, "without"), codec, 5, carrier)
    assert with_overflows == without
    assert len(set(with_overflows)) == 1


class _Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.branches = nn.ModuleDict({name: nn.Linear(40, 200) for name in ("a", "b")})
        self.last = nn.Linear(200, 1)

    def forward(self, inputs: torch.Tensor, name: str) -> torch.Tensor:
        return self.last(torch.relu(self.branches[name](inputs)))


@training.in_process_group
def _unused(rank: int, codec: str, carrier: ddp.state.Carrier) -> bytes:
    if carrier == "hipress":
        hp.init()
    torch.manual_seed(0)
    net = _Branches()
    model = DistributedDataParallel(net, find_unused_parameters=True, bucket_cap_mb=0.02)
    state = ddp.compress(model, codec=codec, compress_vectors=False, carrier=carrier)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    names = ["a", "b", "b", "b", "a"]
    kept: States = {}
    for step, name in enumerate(names):
        inputs, wanted = training.batch(rank, step)
        optimizer.zero_grad()
        (model(inputs, name) - wanted).square().mean().backward()
        now = _states(state)
        if name == "b":
            assert net.branches["a"].weight.grad is None
            for key in kept:
                if key.startswith("branches.a.weight"):
                    assert _any(kept[key]), key
                    assert _same(kept[key], now[key]), (rank, step, key)
        optimizer.step()
        kept = now
    return training.fingerprint(net)


@pytest.mark.parametrize("carrier", ["group", "hipress"])
@pytest.mark.parametrize("codec", ["onebit", "int4", "topk(ratio=0.05)", "thc", "powersgd(min_ratio=1)"])
def test_a_parameter_that_no_rank_used_keeps_its_residual(
    tmp_path: Path, codec: str, carrier: ddp.state.Carrier
) -> None:
    assert len(set(run(_unused, 2, str(tmp_path), codec, carrier))) == 1


def _sharded(mesh: Any) -> nn.Module:
    torch.manual_seed(0)
    net = training.Net()
    for each in (net.first, net.second, net.norm):
        fully_shard(each, mesh=mesh)
    return fully_shard(net, mesh=mesh)


def _steps_of_shards(
    rank: int, net: nn.Module, states: Callable[[], Any], poisons: dict[int, str | None], steps: int
) -> bytes:
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    number = 0
    for step in range(steps):
        inputs, wanted = training.batch(rank, number)
        optimizer.zero_grad()
        loss = (net(inputs) - wanted).square().mean()
        if step in poisons and rank == 1:
            loss = loss * math.inf
        before = _copied(states())
        loss.backward()
        if step in poisons:
            assert _same(before, _copied(states())), (rank, step)
            continue
        number += 1
        assert all(torch.isfinite(each.grad.full_tensor()).all() for each in net.parameters())
        optimizer.step()
    return b"".join(each.full_tensor().detach().numpy().tobytes() for each in net.parameters())


@training.in_process_group
def _replicas(rank: int, codec: str, how: str) -> list[bytes]:
    results = []
    for poisons in ({}, {0: None, 2: None, 3: None, 4: None}):
        if how == "replicas":
            mesh = init_device_mesh("cpu", (2, 1), mesh_dim_names=("rep", "shard"))
            net = _sharded(mesh["shard"])
            state: Any = fsdp.compress_replicas(net, mesh["rep"].get_group(), codec)
            states = lambda state=state: state.state_dict()["states"]  # noqa: E731
        else:
            override = {"rep": ("hipress", BackendOptions(codec))}
            mesh = init_device_mesh("cpu", (2, 1), mesh_dim_names=("rep", "shard"), backend_override=override)
            net = _sharded(mesh)
            state = fsdp.compress_hybrid(net)
            states = lambda state=state: state.state_dict()["groups"][0]["states"]  # noqa: E731
        results.append(_steps_of_shards(rank, net, states, poisons, 4 + len(poisons)))
        dist.barrier()
    return results


@pytest.mark.parametrize("how", ["replicas", "backend"])
def test_steps_of_sharded_models_that_are_not_finite_leave_no_trace(tmp_path: Path, how: str) -> None:
    results = run(_replicas, 2, str(tmp_path), "onebit", how)
    assert len({each for rank in results for each in rank}) == 1
