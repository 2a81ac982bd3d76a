# SPDX-License-Identifier: Apache-2.0
"""Codecs in Python keep what built-in codecs keep, in each way in: no part of a gradient is lost, ranks are identical,
and a step that is not finite changes no state. On a stand-in for a GPU they have the bits of the processor."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import hipress.torch as hp
from hipress.torch import fsdp
from tests.tiers import thorough
from tests.torch.ddp import training
from tests.torch.process_groups import unsent
from tests.torch.process_groups.averages import as_on_the_processor
from tests.torch.process_groups.fake_gpu import FakeGpuSide
from tests.torch.python_codecs.codecs import register_all
from tests.torch.python_codecs.stand_in import computing_on_a_stand_in
from tests.torch.ranks import run
from tests.torch.scaling import test_every_codec as ways
from tests.torch.scaling.stand_in import on_a_stand_in
from tests.torch.test_plans import plan_for

pytestmark = pytest.mark.slow


@training.in_process_group
def _as_on_the_processor(rank: int, world: int, topology: str) -> None:
    with computing_on_a_stand_in():
        as_on_the_processor(rank, world, topology, FakeGpuSide, register_all())


@pytest.mark.parametrize(
    ("topology", "world"),
    [("ps", 3), thorough("allgather", 3), thorough("ring", 3), ("ps", 1), thorough("hierarchical", 4)],
)
def test_averages_and_states_on_a_gpu_are_those_of_the_processor(tmp_path: Path, topology: str, world: int) -> None:
    run(_as_on_the_processor, world, str(tmp_path), world, topology)


@training.in_process_group
def _go_on(rank: int, world: int, topology: str, on_gpu: bool) -> None:
    names = register_all()
    with computing_on_a_stand_in():
        for codec in (names[0], names[1]):
            unsent.go_on(rank, world, topology, codec, FakeGpuSide if on_gpu else None)


@pytest.mark.parametrize("on_gpu", [False, thorough(True)])
@pytest.mark.parametrize(("topology", "world"), [("ps", 3), thorough("ring", 3), thorough("butterfly", 4)])
def test_no_part_of_a_gradient_is_lost_over_a_group(tmp_path: Path, topology: str, world: int, on_gpu: bool) -> None:
    run(_go_on, world, str(tmp_path), world, topology, on_gpu)


def _lacking(topology: str) -> list[float]:
    """After each step: how much of all gradients has not arrived. In the last step they travel without a codec."""
    hp.init()
    sparse = register_all()[1]
    named = [("weight", nn.Parameter(torch.zeros(300, 40)))]
    optimizer: Any = hp.DistributedOptimizer(torch.optim.SGD([named[0][1]], lr=0.0), named)
    lacking, short = torch.zeros(300, 40), []
    for step, codec in enumerate([sparse] * 4 + ["none"]):
        optimizer.set_plan(plan_for(named, [{"codec": codec, "topology": topology, "partitions": 2}], hp.size()))
        values = [
            torch.randn(300, 40, generator=torch.Generator().manual_seed(10 * step + rank)) for rank in range(hp.size())
        ]
        optimizer.zero_grad()
        (named[0][1] * values[hp.rank()]).sum().backward()
        optimizer.step()
        assert named[0][1].grad is not None
        lacking += torch.stack(values).mean(0) - named[0][1].grad
        short.append(float(lacking.abs().max()))
    return short


@pytest.mark.parametrize("topology", ["ps", thorough("ring"), thorough("allgather")])
def test_no_part_of_a_gradient_is_lost_over_the_engine(topology: str) -> None:
    for *before, last in run(_lacking, 3, topology):
        assert min(before) > 0.5
        assert last < 1e-4


@training.in_process_group
def _steps(rank: int, way: str, on_gpu: bool) -> None:
    """As tests/torch/scaling/test_every_codec.py."""
    if way in ways._OVER_ENGINE:
        hp.init()
    # Of the others, one keeps no states, one keeps them only where a value was left out.
    texts = {f"w{number}": text for number, text in enumerate(register_all()[:3])}
    with ExitStack() as places:
        places.enter_context(computing_on_a_stand_in())
        sides = places.enter_context(on_a_stand_in()) if on_gpu else []
        ways._follow(rank, texts, *ways._WAYS[way](texts), sides)


@pytest.mark.parametrize(("way", "on_gpu"), [each if not each[1] else thorough(*each) for each in ways._CASES])
def test_no_states_change_in_a_step_that_is_not_finite(tmp_path: Path, way: str, on_gpu: bool) -> None:
    run(_steps, 2, str(tmp_path), way, on_gpu)


@training.in_process_group
def _between_shards(rank: int, on_gpu: bool) -> Any:
    codec = register_all()[4]
    with ExitStack() as places:
        if on_gpu:
            places.enter_context(computing_on_a_stand_in())
            places.enter_context(on_a_stand_in())
        torch.manual_seed(0)
        net: Any = fully_shard(
            nn.Sequential(nn.Linear(40, 300), nn.ReLU(), nn.Linear(300, 1)),
            mesh=init_device_mesh("cpu", (dist.get_world_size(),)),
        )
        state = fsdp.compress_reduce_scatter(net, codec)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.003)
        losses = []
        for step in range(20):
            inputs, wanted = training.batch(rank, step % 4)
            optimizer.zero_grad()
            loss = (net(inputs) - wanted).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        weights = np.concatenate([each.full_tensor().detach().numpy().ravel() for each in net.parameters()])
        return weights, losses, state.sent_bytes


def test_shards_of_fsdp_are_reduced_alike_on_both_devices(tmp_path: Path) -> None:
    found = []
    for on_gpu in (False, True):
        (folder := tmp_path / str(on_gpu)).mkdir()
        found.append(run(_between_shards, 2, str(folder), on_gpu))
    (host, losses, sent), *_ = found[0]
    assert all(late < early for early, late in zip(losses[:4], losses[-4:], strict=True))
    # 20 steps, half of 12,000 weights, a byte each.
    assert 20 * 6000 < sent < 20 * 6200
    for weights, *_ in found[0] + found[1]:
        np.testing.assert_array_equal(weights, host)
