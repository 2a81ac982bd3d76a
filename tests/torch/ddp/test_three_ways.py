# SPDX-License-Identifier: Apache-2.0
"""The hook over the process group, the hook over the engine and DistributedOptimizer send as many bytes and reach the
same loss."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import hipress.torch as hp
from hipress.torch import ddp
from tests.torch.ddp import training
from tests.torch.ranks import run

pytestmark = pytest.mark.slow

WAYS = ["group", "hipress", "optimizer"]
#: Tensors of one partition, of several, and of partitions with unequal sizes.
SHAPES = [(50, 80), (400, 500), (1001, 333)]


class _Matrix(nn.Module):
    def __init__(self, shape: tuple[int, int]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(shape))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return (inputs * self.weight).sum()


@training.in_process_group
def _bytes_of_a_tensor(rank: int, codec: str, way: str, shape: tuple[int, int]) -> int:
    """The bytes that a rank sends for one parameter in one step."""
    hp.init()
    module: nn.Module = _Matrix(shape)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    if way == "optimizer":
        optimizer = hp.DistributedOptimizer(optimizer, module.named_parameters(), codec=codec)
    else:
        module = DistributedDataParallel(module)
        state = ddp.compress(module, codec, carrier=way)
    inputs = torch.randn(shape, generator=torch.Generator().manual_seed(rank))

    def sent() -> int:
        return state._carrier._average.sent_bytes if way == "group" else hp.counters()["bytes_sent"]

    counts = []
    for _ in range(3):
        before = sent()
        module(inputs).backward()
        optimizer.step()
        counts.append(sent() - before)
    assert counts[1] == counts[2]
    return counts[2]


@pytest.mark.parametrize("codec", ["onebit", "terngrad"])
def test_all_ways_send_the_same_bytes_for_a_tensor(tmp_path: Path, codec: str) -> None:
    for shape in SHAPES:
        found = {}
        for way in WAYS:
            (folder := tmp_path / f"{way} {shape}").mkdir()
            found[way] = sum(run(_bytes_of_a_tensor, 3, str(folder), codec, way, shape))
        assert found["hipress"] == found["optimizer"]
        # The process group's all-gather pads all averages to the longest one.
        assert found["group"] == pytest.approx(found["optimizer"], rel=0.025), (shape, found)


@training.in_process_group
def _loss(rank: int, codec: str, way: str, seed: int) -> float:
    """The mean loss over the last quarter of a training."""
    hp.init(seed=seed)
    torch.manual_seed(seed)
    net = training.Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.003)
    model: nn.Module = net
    if way == "optimizer":
        vectors = {name: "none" for name, each in net.named_parameters() if each.dim() < 2}
        hp.broadcast_parameters(net.state_dict(), root_rank=0)
        optimizer = hp.DistributedOptimizer(optimizer, net.named_parameters(), codec=codec, codec_for=vectors)
    else:
        model = DistributedDataParallel(net, bucket_cap_mb=0.3)
        if way != "torch":
            ddp.compress(model, codec, carrier=way, seed=seed if way == "group" else 0)
    losses = []
    for step in range(40):
        inputs, wanted = training.batch(rank, 1000 * seed + step)
        optimizer.zero_grad()
        value = (model(inputs) - wanted).square().mean()
        value.backward()
        optimizer.step()
        losses.append(value.item())
    return float(np.mean(losses[30:]))


@pytest.mark.parametrize("codec", ["onebit", "terngrad"])
def test_all_ways_train_alike(tmp_path: Path, codec: str) -> None:
    """The ways choose other owners and other random numbers, so their losses differ as much as the losses of three
    seeds."""
    losses: dict[str, list[float]] = {}
    for way in ["torch", *WAYS]:
        for seed in (1, 2, 3):
            (folder := tmp_path / f"{way} {seed}").mkdir()
            losses.setdefault(way, []).append(float(np.mean(run(_loss, 2, str(folder), codec, way, seed))))
    means = {way: np.mean(each) for way, each in losses.items()}
    noise = max(np.std(each, ddof=1) for each in losses.values()) / np.sqrt(3)
    for way in WAYS:
        assert abs(means[way] - means["optimizer"]) <= 3 * noise, (way, losses)
        assert means[way] < means["torch"] * 1.5, losses
