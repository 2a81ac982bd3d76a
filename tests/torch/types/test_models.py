# SPDX-License-Identifier: Apache-2.0
"""Models with parameters of several types in DistributedDataParallel: each gradient is averaged in its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import hipress.torch as hp
from hipress.torch import ddp
from tests.torch.ddp import training
from tests.torch.ranks import run

pytestmark = pytest.mark.slow


class _Mixed(nn.Module):
    """Its derivatives are the values that backward() gets."""

    def __init__(self) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.zeros(64, 64))
        self.spectrum = nn.Parameter(torch.zeros(64, 64, dtype=torch.complex64))
        self.conjugated = nn.Parameter(torch.zeros(64, 40, dtype=torch.complex64))
        self.phases = nn.Parameter(torch.zeros(50, dtype=torch.complex64))
        self.fine = nn.Parameter(torch.zeros(50, 50, dtype=torch.complex128))

    def forward(self) -> list[torch.Tensor]:
        return [each.conj().clone() if name == "conjugated" else each.clone() for name, each in self.named_parameters()]


def _given(rank: int, step: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(100 * step + rank)
    return {
        name: torch.randn(each.shape, generator=generator, dtype=each.dtype)
        for name, each in _Mixed().named_parameters()
    }


@training.in_process_group
def _gradients(rank: int, codec: str, carrier: str, view: bool) -> list[dict[str, torch.Tensor]]:
    hp.init()
    net = _Mixed()
    model = DistributedDataParallel(net, gradient_as_bucket_view=view)
    ddp.compress(model, codec, carrier=carrier)
    results = []
    for step in range(3):  # DDP forms other buckets after its first step
        model.zero_grad()
        torch.autograd.backward(model(), list(_given(rank, step).values()))
        results.append({name: each.grad.resolve_conj().clone() for name, each in net.named_parameters()})
    return results


def _mean(step: int) -> dict[str, torch.Tensor]:
    both = [_given(rank, step) for rank in range(2)]
    means = {name: (both[0][name] + both[1][name]) / 2 for name in both[0]}
    return {**means, "conjugated": means["conjugated"].conj().resolve_conj()}


@pytest.mark.parametrize("carrier", ["group", "hipress"])
@pytest.mark.parametrize("view", [False, True])
def test_complex_gradients_without_a_codec_are_the_mean(tmp_path: Path, carrier: str, view: bool) -> None:
    for results in run(_gradients, 2, str(tmp_path), "none", carrier, view):
        for step, found in enumerate(results):
            for name, mean in _mean(step).items():
                torch.testing.assert_close(found[name], mean)


@pytest.mark.parametrize("carrier", ["group", "hipress"])
@pytest.mark.parametrize("codec", ["int8", "onebit", "powersgd(rank=4)"])
def test_complex_gradients_are_compressed_as_real_numbers(tmp_path: Path, carrier: str, codec: str) -> None:
    first, second = run(_gradients, 2, str(tmp_path), codec, carrier, True)
    total: dict[str, Any] = {}
    for step, (found, other) in enumerate(zip(first, second, strict=True)):
        for name, mean in _mean(step).items():
            assert torch.equal(found[name], other[name]), name
            # The phases are a vector, which has no codec.
            bound = 1e-6 if name == "phases" else 0.1 if codec == "int8" else 8.0
            assert float((found[name] - mean).abs().max()) < bound, (step, name)
            total[name] = total.get(name, 0) + found[name] - mean
    if codec != "int8":  # error feedback: what a step drops comes later
        for name, error in total.items():
            assert float(error.abs().mean()) < 1.5, name


@training.in_process_group
def _fine_vectors(rank: int, codec: str) -> dict[str, torch.Tensor]:
    net = nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64)).double()
    model = DistributedDataParallel(net)
    ddp.compress(model, codec)
    inputs = torch.eye(64, dtype=torch.float64) * (1 + rank * 2.0**-35)
    model(inputs).square().sum().backward()
    plain = DistributedDataParallel(nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64)).double())
    plain.module.load_state_dict(net.state_dict())
    plain(inputs).square().sum().backward()
    wanted = {name: each.grad for name, each in plain.module.named_parameters()}
    return {name: each.grad - wanted[name] for name, each in net.named_parameters() if each.dim() == 1}


def test_vectors_of_a_float64_model_keep_its_precision_beside_compressed_matrices(tmp_path: Path) -> None:
    for differences in run(_fine_vectors, 2, str(tmp_path), "int8"):
        assert len(differences) == 3
        for name, each in differences.items():
            assert float(each.abs().max()) < 1e-13, name
