# SPDX-License-Identifier: Apache-2.0
"""A sparse gradient beside compressed ones: it travels as it is, and its values decide with theirs whether a step
counts, over a process group."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

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


class _Words(nn.Module):
    """The embedding's gradient is sparse, and the codec keeps residuals of the other matrices."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 40, sparse=True)
        self.first = nn.Linear(40, 200)
        self.last = nn.Linear(200, 30)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.last(torch.relu(self.first(self.embedding(words))))


def _net() -> _Words:
    torch.manual_seed(0)
    return _Words()


def _backward(model: nn.Module, net: _Words, rank: int, step: int, *, poison: bool = False) -> None:
    """Only the sparse gradient of rank 1 is poisoned: its hook runs after those of the other gradients."""
    generator = torch.Generator().manual_seed(100 * step + rank)
    for each in net.parameters():
        each.grad = None
    handle = None
    if poison and rank == 1:

        def poisoned(gradient: torch.Tensor) -> torch.Tensor:
            values = gradient._values().clone()
            values[0, 0] = math.inf
            return torch.sparse_coo_tensor(gradient._indices(), values, gradient.shape)

        handle = net.embedding.weight.register_hook(poisoned)
    model(torch.randint(50, (16,), generator=generator)).square().mean().backward()
    if handle is not None:
        handle.remove()


def _copied(states: Any) -> Any:
    return {key: _copied(each) for key, each in states.items()} if isinstance(states, dict) else np.array(states)


@training.in_process_group
def _over_the_group(rank: int, options: dict[str, Any]) -> None:
    net = _net()
    model = DistributedDataParallel(net, bucket_cap_mb=0.01)
    state = ddp.compress(model, "onebit", **options)
    for step in range(6):
        before = _copied(state.state_dict()["states"])
        poison = step in (2, 3)
        _backward(model, net, rank, step, poison=poison)
        after = _copied(state.state_dict()["states"])
        gradient = net.embedding.weight.grad
        assert gradient is not None
        assert gradient.is_sparse
        assert torch.isfinite(gradient.to_dense()).all() == (not poison)
        assert torch.isfinite(net.first.weight.grad).all()
        assert before.keys() == after.keys() or step == 0
        same = [np.array_equal(before[key]["residual"], each["residual"]) for key, each in after.items() if step]
        assert all(same) if poison else not any(same), (step, same)


@pytest.mark.parametrize("options", [{}, {"topology": "allgather"}, {"topology": "hierarchical", "ranks_per_host": 1}])
def test_a_sparse_gradient_that_is_not_finite_leaves_the_residuals_of_all_others(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    run(_over_the_group, 2, str(tmp_path), options)


@training.in_process_group
def _paid_back(rank: int) -> tuple[float, float]:
    """What the sums of averages lack of the exact ones, before and after a step without a codec."""
    nets = [_net(), _net()]
    compressed, exact, uncompressed = (DistributedDataParallel(net, bucket_cap_mb=0.01) for net in (*nets, nets[0]))
    state = ddp.compress(compressed, "onebit")
    after = ddp.compress(uncompressed, "none")
    total = torch.zeros_like(nets[0].first.weight)
    lacking = []
    for step in range(8):
        model = compressed
        if step == 7:
            lacking.append(float(total.abs().max()))
            after.load_state_dict(state.state_dict())
            model = uncompressed
        poison = step in (2, 3)
        for one, net, sign in ((model, nets[0], 1), (exact, nets[1], -1)):
            _backward(one, net, rank, step, poison=poison)
            if not poison:  # a loss scaler leaves the step out
                total.add_(net.first.weight.grad, alpha=sign)
    return lacking[0], float(total.abs().max())


def test_nothing_is_lost_in_such_steps(tmp_path: Path) -> None:
    for held_back, left in run(_paid_back, 2, str(tmp_path)):
        assert held_back > 1e-3
        assert left < 1e-3 * held_back


@training.in_process_group
def _over_the_engine(rank: int, way: str) -> list[bytes]:
    """The parameters after each step. The sparse gradient of one rank is not finite in step 2."""
    hp.init()
    net = _net()
    model: nn.Module = net
    # The factor is 1 in float32.
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, backoff_factor=math.nextafter(1, 0))
    optimizer: Any = torch.optim.SGD(net.parameters(), lr=0.1)
    if way == "optimizer":
        optimizer = hp.DistributedOptimizer(optimizer, net.named_parameters(), codec="onebit", scaler=scaler)
    else:
        model = DistributedDataParallel(net, bucket_cap_mb=0.01)
        ddp.compress(model, "onebit", carrier="hipress", scaler=scaler)
    scaler.scale(torch.ones(1))
    seen = []
    for step in range(5):
        _backward(model, net, rank, step, poison=step == 2)
        scaler.step(optimizer)
        scaler.update()
        seen.append(training.fingerprint(net))
    assert all(torch.isfinite(each).all() for each in net.parameters())
    return seen


@pytest.mark.parametrize("way", ["optimizer", "hipress"])
def test_over_the_engine_all_ranks_leave_such_a_step_out_and_go_on(tmp_path: Path, way: str) -> None:
    one, other = run(_over_the_engine, 2, str(tmp_path), way)
    assert one == other
    assert one[2] == one[1]
    assert len(set(one)) == 4
