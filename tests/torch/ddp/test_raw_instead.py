# SPDX-License-Identifier: Apache-2.0
"""Gradients that travel without their codec are named, and counters() has their bytes, the same over both carriers."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import hipress.torch as hp
from hipress.torch import ddp, fsdp
from hipress.torch.ddp.options import Carrier
from hipress.torch.process_groups import BackendOptions, gradients
from tests.torch.ddp import training
from tests.torch.ranks import run
from tests.torch.test_plans import plan_for

pytestmark = pytest.mark.slow

_STEPS = 3
_BYTES = {name: each.nbytes for name, each in training.Net().named_parameters()}
_VECTORS = {name for name, each in training.Net().named_parameters() if each.dim() < 2}
_MOST = _VECTORS | {"last.weight"}
#: onebit would not shrink its only element.
_ONE = {"last.bias"}

#: Options of compress(), which gradients travel raw instead, which ones as chosen, and in how many steps.
_CASES: list[tuple[dict[str, Any], set[str], set[str], int]] = [
    ({"codec": "onebit"}, _MOST, set(), _STEPS),
    ({"codec": "onebit", "compress_vectors": True, "min_compress_bytes": 0}, _ONE, set(), _STEPS),
    ({"codec": "onebit", "codec_for": {"second.weight": "none"}}, _MOST, {"second.weight"}, _STEPS),
    (
        {"codec": "onebit", "codec_for": {"last.bias": "onebit", "norm.bias": "fp16"}},
        _MOST - {"norm.bias"},
        set(),
        _STEPS,
    ),
    ({"codec": "onebit", "warmup": 2}, _MOST, set(), 1),
    ({"codec": "none"}, set(), set(_BYTES), _STEPS),
]


def _steps(rank: int, model: nn.Module, steps: int = _STEPS) -> int:
    """The bytes that travel raw instead."""
    before = hp.counters()["bytes_raw_instead"]
    for step in range(steps):
        inputs, wanted = training.batch(rank, step)
        (model(inputs) - wanted).square().mean().backward()
    dist.barrier()
    return hp.counters()["bytes_raw_instead"] - before


@training.in_process_group
def _by_both(rank: int, plan: str) -> None:
    hp.init()
    planned = {"plan": plan}, {"last.bias"}, {"first.bias"}, _STEPS
    for options, instead, chosen, steps in [*_CASES, planned]:
        for carrier in get_args(Carrier):
            model = DistributedDataParallel(training.Net(), bucket_cap_mb=0.3)
            state = ddp.compress(model, carrier=carrier, **options)
            sent = _steps(rank, model)
            assert set(state.exact_tensors) == instead | chosen, (carrier, options)
            # Each of two ranks sends a tensor once: to its owner, or to the other one as its owner.
            assert sent == steps * sum(_BYTES[name] for name in instead), (carrier, options)
            state.close()


def test_both_carriers_count_the_same_bytes(tmp_path: Path) -> None:
    ways: dict[str, dict[str, Any]] = {name: {"codec": "onebit", "topology": "ps", "partitions": 1} for name in _BYTES}
    ways["first.bias"]["codec"] = "none"
    for name in ("first.weight", "norm.weight", "norm.bias"):
        ways[name]["group"] = "g"
    path = str(tmp_path / "plan.json")
    plan_for(training.Net().named_parameters(), list(ways.values()), world=2).write(path)
    run(_by_both, 2, str(tmp_path), path)


@training.in_process_group
def _without_an_engine(rank: int) -> None:
    model = DistributedDataParallel(training.Net(), bucket_cap_mb=0.3)
    state = ddp.compress(model, "onebit")
    assert list(hp.counters()) == ["bytes_raw_instead"]
    assert _steps(rank, model) == _STEPS * sum(_BYTES[name] for name in _MOST)
    state.close()

    group = dist.new_group(backend="hipress", pg_options=BackendOptions("onebit"))
    before = hp.counters()["bytes_raw_instead"]
    for count in (100, 4000):
        with gradients(f"g{count}"):
            dist.all_reduce(torch.randn(count), group=group)
        assert hp.counters()["bytes_raw_instead"] - before == 400
    dist.destroy_process_group(group)

    mesh = init_device_mesh("cpu", (2, 1), mesh_dim_names=("rep", "shard"))
    net = fully_shard(nn.Linear(40, 200), mesh=mesh["shard"])
    fsdp.compress_replicas(net, mesh["rep"].get_group(), "onebit")
    assert _of(net) == 800
    net = fully_shard(nn.Linear(40, 200), mesh=init_device_mesh("cpu", (2,)))
    fsdp.compress_reduce_scatter(net, "fp16")
    assert _of(net) == 400  # the other rank's shard of the bias


def _of(net: nn.Module) -> int:
    before = hp.counters()["bytes_raw_instead"]
    net(torch.randn(2, 40)).square().mean().backward()
    return hp.counters()["bytes_raw_instead"] - before


def test_process_groups_count_without_init(tmp_path: Path) -> None:
    run(_without_an_engine, 2, str(tmp_path))
