# SPDX-License-Identifier: Apache-2.0
"""HIPRESS_CHECK_REPLICAS finds a replica that differs, in every way in, on all ranks, with the parameter's name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import hipress.torch as hp
from hipress.torch import ddp, fsdp, optim
from hipress.torch.diloco import DiLoCo
from hipress.torch.process_groups import BackendOptions
from tests.torch.ddp import training
from tests.torch.ranks import run

pytestmark = pytest.mark.slow

#: Makes a model and what takes a step of it.
Way = Callable[[], tuple[nn.Module, Callable[[], None]]]


def _net() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(40, 100)


def _sgd(model: nn.Module) -> Callable[[], None]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    return lambda: (optimizer.step(), optimizer.zero_grad())  # type: ignore[return-value]


def _hook(**options: Any) -> Way:
    def make() -> tuple[nn.Module, Callable[[], None]]:
        model = DistributedDataParallel(_net())
        ddp.compress(model, "onebit", **options)
        return model, _sgd(model)

    return make


def _replicas() -> tuple[nn.Module, Callable[[], None]]:
    mesh = init_device_mesh("cpu", (2, 1), mesh_dim_names=("rep", "shard"))
    model = fully_shard(_net(), mesh=mesh["shard"])
    fsdp.compress_replicas(model, mesh["rep"].get_group(), "onebit")
    return model, _sgd(model)


def _hybrid() -> tuple[nn.Module, Callable[[], None]]:
    backend = {"rep": ("hipress", BackendOptions("onebit"))}
    mesh = init_device_mesh("cpu", (2, 1), mesh_dim_names=("rep", "shard"), backend_override=backend)
    model = fully_shard(_net(), mesh=mesh)
    fsdp.compress_hybrid(model)
    return model, _sgd(model)


def _optimizer(group: bool) -> Way:
    def make() -> tuple[nn.Module, Callable[[], None]]:
        model = _net()
        optimizer = optim.OneBitAdam(model.named_parameters(), freeze_step=2, group=dist.group.WORLD if group else None)
        return model, lambda: (optimizer.step(), optimizer.zero_grad())  # type: ignore[return-value]

    return make


def _diloco() -> tuple[nn.Module, Callable[[], None]]:
    model = _net()
    inner = torch.optim.SGD(model.parameters(), lr=0.01)
    diloco = DiLoCo(model, inner, sync_every=1, codec="onebit", group=dist.group.WORLD)
    model.outer = diloco._outer  # type: ignore[assignment]
    return model, lambda: (inner.step(), inner.zero_grad())  # type: ignore[return-value]


_WAYS: dict[str, Way] = {
    "hook": _hook(),
    "hook over the engine": _hook(carrier="hipress"),
    "replicas": _replicas,
    "hybrid": _hybrid,
    "optimizer": _optimizer(group=True),
    "optimizer over the engine": _optimizer(group=False),
    "DiLoCo": _diloco,
}


@training.in_process_group
def _spoiled(rank: int, way: str) -> str:
    if "engine" in way:
        hp.init()
    model, update = _WAYS[way]()

    def steps(numbers: range) -> None:
        for number in numbers:
            model(training.batch(rank, number)[0]).square().mean().backward()
            update()

    steps(range(5))
    weight = model.outer.values["weight"] if way == "DiLoCo" else next(iter(model.parameters()))
    if rank == 1:
        with torch.no_grad():
            (weight.to_local() if hasattr(weight, "to_local") else weight).view(-1)[7] += 1.0
    with pytest.raises(hp.Mismatch) as caught:
        steps(range(5, 8))
    return str(caught.value)


@pytest.mark.parametrize("way", _WAYS)
def test_a_replica_that_differs_is_found_on_all_ranks(tmp_path: Path, way: str) -> None:
    for text in run(_spoiled, 2, str(tmp_path), way, HIPRESS_CHECK_REPLICAS="2"):
        after = "exchange 6" if way == "DiLoCo" else "step 6"
        assert f"parameter 'weight' after {after}" in text, text


@training.in_process_group
def _joined(rank: int) -> None:
    model = DistributedDataParallel(_net())
    ddp.compress(model, "onebit")
    update = _sgd(model)
    with model.join():
        for number in range(4 + 3 * rank):
            model(training.batch(rank, number)[0]).square().mean().backward()
            update()


def test_a_rank_that_has_joined_is_not_compared(tmp_path: Path) -> None:
    run(_joined, 2, str(tmp_path), HIPRESS_CHECK_REPLICAS="1")
