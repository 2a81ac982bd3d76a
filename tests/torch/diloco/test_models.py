# SPDX-License-Identifier: Apache-2.0
"""DiLoCo works with frozen, tied, float64 and channels-last parameters, and with schedulers."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import hipress.torch as hp
from tests.torch.ranks import run

pytestmark = pytest.mark.slow


class _Net(nn.Module):
    """A model with a frozen layer, two names of one weight, a scalar, float64 values and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
        self.norm = nn.BatchNorm2d(4)
        self.frozen = nn.Linear(4, 4).requires_grad_(False)
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.scale = nn.Parameter(torch.tensor(1.0))
        self.last = nn.Linear(4, 2).double()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features = self.norm(self.convolution(images)).mean((2, 3))
        features = self.second(self.first(self.frozen(features)).relu()) * self.scale
        result: torch.Tensor = self.last(features.double())
        return result


def _trained(schedules: bool) -> tuple[list[float], list[torch.Tensor], bool]:
    """The distance of this rank's parameters from the outer parameters after each step; the final values; whether a
    frozen parameter is in a fragment."""
    hp.init()
    torch.manual_seed(hp.rank())
    model = _Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.9) if schedules else None
    diloco = hp.DiLoCo(model, optimizer, preset="local_sgd", sync_every=2)
    outer_scheduler = torch.optim.lr_scheduler.ConstantLR(diloco.outer_optimizer, factor=1.0)
    frozen = model.frozen.weight.clone()
    differences = []
    for _ in range(6):
        optimizer.zero_grad()
        model(torch.randn(5, 3, 6, 6)).square().mean().backward()
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
            outer_scheduler.step()
        own = [each.detach().clone() for each in model.parameters()]
        with diloco.outer_parameters():
            outer = list(model.parameters())
            differences.append(max(float((a - b).abs().max()) for a, b in zip(own, outer, strict=True)))
    assert torch.equal(model.frozen.weight, frozen)
    assert model.second.weight is model.first.weight
    assert diloco.state_dict()["step"] == 6
    travels = any("frozen.weight" in names for names in diloco.fragments)
    return differences, [each.detach() for each in model.parameters()], travels


@pytest.mark.parametrize("schedules", [False, True])
def test_each_kind_of_parameter_meets_the_others_every_second_step(schedules: bool) -> None:
    ranks = run(_trained, 2, schedules)
    for differences, _, frozen_travels in ranks:
        assert [each == 0.0 for each in differences] == [False, True] * 3
        assert not frozen_travels
    for one, other in zip(ranks[0][1], ranks[1][1], strict=True):
        assert torch.equal(one, other)
