# SPDX-License-Identifier: Apache-2.0
"""What codecs keep moves into a world of other ranks: averages still get what they lacked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import hipress.torch as hp
from hipress.adapter.codec_states import mean_states, own_states
from hipress.adapter.lists.moved_states import move_states, squared_norm
from tests.torch.ranks import run

pytestmark = pytest.mark.timeout(120)


def _trained(codec: str, **options: Any) -> Any:
    torch.manual_seed(0)
    model = torch.nn.Linear(60, 40, bias=False)
    optimizer = hp.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.0),
        model.named_parameters(),
        codec=codec,
        min_compress_bytes=0,
        **options,
    )
    for step in range(3):
        inputs = torch.randn(4, 60, generator=torch.Generator().manual_seed(10 * step + hp.rank()))
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
    return optimizer


def _lacking(tensors: Any) -> NDArray[Any]:
    return mean_states(tensors)["weight/residual"]


def _moved(codec: str, world: int, op: str) -> tuple[Any, ...]:
    """What the averages lack before the move and after it, of a world of `world` ranks."""
    hp.init()
    optimizer = _trained(codec, op=hp.Average if op == "average" else hp.Sum)
    tensors = optimizer._hipress.synchronizer
    before = _lacking(tensors)
    own = own_states(tensors)
    own["hipress"][1] = world
    move_states(tensors, own)
    after = _lacking(tensors)
    return before, after, tensors.steps, squared_norm(own), [codec for codec in own if codec.endswith("/residual")]


@pytest.mark.parametrize("codec", ["onebit", "dgc", "powersgd", "int8_shared", "topk"])
@pytest.mark.parametrize(("world", "op"), [(2, "average"), (3, "average"), (3, "sum")])
def test_averages_get_what_they_lacked(codec: str, world: int, op: str) -> None:
    for before, after, steps, norm, _ in run(_moved, 2, codec, world, op):
        # The mean over `world` ranks was 2 / world of the mean over the two that are left.
        growth = 2 / world if op == "average" else 1.0
        assert np.abs(before).max() > 0
        np.testing.assert_allclose(after, growth * before, rtol=1e-4, atol=1e-6 * np.abs(before).max())
        assert steps == 3
        assert norm > 0


def _newcomer(codec: str) -> tuple[bytes, float]:
    """Rank 1 has no states, as a new process; then both train on."""
    hp.init()
    optimizer = _trained(codec)
    tensors = optimizer._hipress.synchronizer
    own = own_states(tensors)
    if hp.rank() == 1:
        for key, values in own.items():
            if "/" in key:
                values[...] = 0
        own["weight:steps"][...] = 0
        own["hipress"][3] = 0
    move_states(tensors, own)
    held = squared_norm(own_states(tensors))
    (group,) = optimizer.param_groups
    group["lr"] = 0.1
    weight = group["params"][0]
    for step in range(3, 6):
        inputs = torch.randn(4, 60, generator=torch.Generator().manual_seed(10 * step + hp.rank()))
        optimizer.zero_grad()
        (inputs @ weight.t()).square().mean().backward()
        optimizer.step()
    return weight.detach().numpy().tobytes(), held


@pytest.mark.parametrize("codec", ["onebit", "powersgd(rank=2)", "randomk", "terngrad", "thc"])
def test_a_new_rank_computes_the_same_bits(codec: str) -> None:
    (first, held), (second, nothing) = run(_newcomer, 2, codec)
    assert first == second
    assert nothing == 0
    assert held > 0 or codec == "terngrad"
