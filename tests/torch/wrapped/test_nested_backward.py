# SPDX-License-Identifier: Apache-2.0
"""Checkpointing with use_reentrant=True runs backward passes within backward: each gradient travels once per step."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import hipress.torch as hp
from tests.torch.ranks import run

pytestmark = pytest.mark.slow


class _Segments(nn.Module):
    """Layers in checkpointed segments, one within another one, with an output layer outside of them. With `tied` the
    first segment and the output share a weight."""

    def __init__(self, tied: bool) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(4))
        self.out = nn.Linear(64, 64)
        if tied:
            self.out.weight = self.layers[0].weight

    def forward(self, inputs: torch.Tensor, reentrant: bool) -> torch.Tensor:
        def outer(hidden: torch.Tensor) -> torch.Tensor:
            hidden = self.layers[1](hidden).tanh()
            return checkpoint(lambda values: self.layers[2](values).tanh(), hidden, use_reentrant=reentrant)

        hidden = checkpoint(lambda values: self.layers[0](values).tanh(), inputs, use_reentrant=reentrant)
        hidden = checkpoint(outer, hidden, use_reentrant=reentrant)
        hidden = checkpoint(lambda values: self.layers[3](values).tanh(), hidden, use_reentrant=reentrant)
        return self.out(hidden)


def _loss(model: _Segments, inputs: torch.Tensor, reentrant: bool) -> torch.Tensor:
    return model(inputs.clone().requires_grad_(), reentrant).square().mean()


def _once(model: _Segments, loss: Callable[[], torch.Tensor]) -> None:
    loss().backward()


def _twice_through_one_graph(model: _Segments, loss: Callable[[], torch.Tensor]) -> None:
    value = loss()
    value.backward(retain_graph=True)
    value.backward()


def _with_a_penalty(model: _Segments, loss: Callable[[], torch.Tensor]) -> None:
    """A call of autograd.grad() within backward."""
    inputs = torch.ones(3, 64, requires_grad=True)

    class Penalty(torch.autograd.Function):
        @staticmethod
        def forward(_: Any, value: torch.Tensor) -> torch.Tensor:
            return value.clone()

        @staticmethod
        def backward(_: Any, gradient: torch.Tensor) -> torch.Tensor:
            with torch.enable_grad():
                (slope,) = torch.autograd.grad(model.out(inputs).sum(), inputs)
            return gradient + slope.mean()

    Penalty.apply(loss()).backward()


PASSES: dict[str, Callable[..., None]] = {
    "once": _once,
    "retained": _twice_through_one_graph,
    "penalty": _with_a_penalty,
}


def _trained(
    passes: str, codec: str, tied: bool, options: dict[str, Any], reentrant: bool
) -> list[tuple[int, list[np.ndarray[Any, Any]]]]:
    """The bytes of each step, and the gradients after its backward."""
    hp.init()
    model = _Segments(tied)
    optimizer = hp.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters(), codec=codec, **options
    )
    seen = []
    for step in range(3):
        before = hp.counters()["bytes_sent"]
        optimizer.zero_grad()
        inputs = torch.randn(3, 64, generator=torch.Generator().manual_seed(10 * step + hp.rank()))
        for _ in range(options.get("backward_passes_per_step", 1) // (2 if passes == "retained" else 1)):
            PASSES[passes](model, partial(_loss, model, inputs, reentrant))
        gradients = [each.grad.numpy().copy() for each in model.parameters() if each.grad is not None]
        optimizer.step()
        seen.append((hp.counters()["bytes_sent"] - before, gradients))
    return seen


@pytest.mark.parametrize(
    ("passes", "codec", "tied", "options"),
    [
        ("once", "none", False, {}),
        ("once", "onebit(error_feedback=false)", False, {}),
        ("once", "none", False, {"backward_passes_per_step": 2}),
        ("retained", "onebit", False, {"backward_passes_per_step": 2}),
        ("penalty", "onebit", False, {}),
        ("once", "none", True, {}),
    ],
)
def test_each_gradient_travels_once(passes: str, codec: str, tied: bool, options: dict[str, Any]) -> None:
    ranks = [run(_trained, 2, passes, codec, tied, options, reentrant) for reentrant in (True, False)]
    for nested, flat in zip(*ranks, strict=True):
        # The first step learns that passes are nested: a weight of both, already averaged, travels again.
        first = 1 if tied else 0
        assert [sent for sent, _ in nested[first:]] == [sent for sent, _ in flat[first:]]
        for (_, one), (_, other) in zip(nested, flat, strict=True):
            for mine, theirs in zip(one, other, strict=True):
                np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-6 if tied else 0)


def _raises_within() -> None:
    hp.init()
    model = _Segments(False)
    optimizer = hp.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())

    def broken(gradient: torch.Tensor) -> None:
        raise RuntimeError("in a nested pass")

    for step in range(4):
        optimizer.zero_grad()
        value = model(torch.ones(3, 64, requires_grad=True), True).square().mean()
        if step == 2:
            hook = model.layers[2].weight.register_hook(broken)
            with pytest.raises(RuntimeError, match="in a nested pass"):
                value.backward()
            hook.remove()
            optimizer.skip_batch()
        else:
            value.backward()
        optimizer.step()


def test_a_batch_is_skipped_after_an_error_in_a_nested_pass() -> None:
    run(_raises_within, 2)
