# SPDX-License-Identifier: Apache-2.0
"""Equal models that one process trains in turn get the same bits: owners and random numbers come from names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import hipress.torch as hp
from hipress.torch import ddp
from tests.torch.ddp import training
from tests.torch.ranks import run

pytestmark = pytest.mark.slow

CODECS = ["fp16", "int8", "int4", "onebit", "terngrad", "randomk(ratio=0.1)", "topk(ratio=0.1)", "powersgd", "thc"]


def _one(kind: str, codec: str) -> bytes:
    """The parameters after some steps of a model that is the same each time."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(40, 50), nn.ReLU(), nn.Linear(50, 60), nn.ReLU(), nn.Linear(60, 40))
    model: nn.Module = net
    optimizer: Any = torch.optim.SGD(net.parameters(), lr=0.01)
    if kind == "DistributedOptimizer":
        optimizer = hp.DistributedOptimizer(optimizer, net.named_parameters(), codec=codec)
    else:
        model = DistributedDataParallel(net)
        ddp.compress(model, codec, carrier=kind)  # type: ignore[arg-type]
    for step in range(4):
        inputs = torch.randn(8, 40, generator=torch.Generator().manual_seed(10 * step + dist.get_rank()))
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
    return b"".join(each.detach().numpy().tobytes() for each in net.parameters())


@training.in_process_group
def _in_turn(_rank: int, kind: str) -> list[str]:
    """The codecs with which two equal models differ."""
    if kind != "group":
        hp.init()
    return [codec for codec in CODECS if len({_one(kind, codec) for _ in range(2)}) != 1]


@pytest.mark.parametrize("kind", ["DistributedOptimizer", "hipress", "group"])
def test_equal_models_in_one_process_get_the_same_bits(tmp_path: Path, kind: str) -> None:
    assert run(_in_turn, 2, str(tmp_path), kind) == [[], []]
