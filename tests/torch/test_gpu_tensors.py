# SPDX-License-Identifier: Apache-2.0
"""Tensors on GPUs can be synchronised, and without a usable GPU the error says what to do."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import hipress.torch as hp
from hipress import _core, runtime
from hipress.torch import ddp, operators
from tests.compll.emit.cuda.device import require_gpu
from tests.torch.ranks import run

pytestmark = pytest.mark.slow


def _without_that_gpu() -> None:
    hp.init()
    # A torch without CUDA cannot make such a tensor, so an object replaces it.
    tensor: Any = SimpleNamespace(device=torch.device("cuda", 99), get_device=lambda: 99)
    with pytest.raises(hp.Unsupported, match=r"'w' is on a GPU, but cuda:99 cannot be used: .*call \.cpu\(\) first"):
        operators.device_of(tensor, "w")


def test_a_gpu_that_cannot_be_used_is_named_with_the_tensor() -> None:
    run(_without_that_gpu, 1)


def _moved_away() -> None:
    hp.init()
    spec = _core.TensorSpec("w", count=5, device=_core.SimulatedDevice())
    (declared,) = runtime.current().engine.declare([spec])
    values = torch.ones(5)
    assert operators.submit_in_place(values, declared) == -1
    with pytest.raises(hp.Unsupported, match=r"'w': it is not on simulated:0, where it was when it was declared"):
        operators.raise_refusal(values, "w")


def test_a_tensor_that_is_not_where_it_was_declared_is_refused() -> None:
    run(_moved_away, 1)


def _combined(place: str) -> list[bytes]:
    hp.init()
    combined = []
    for codec in ("none", "fp16", "onebit"):
        values = torch.randn(30_000, generator=torch.Generator().manual_seed(hp.rank())).to(place)
        # The input is still being computed when it is submitted, and the next operation uses the result at once.
        combined.append((hp.allreduce(values.neg().neg(), name=codec, codec=codec) * 2).cpu().numpy().tobytes())
    return combined


def _trained(place: str) -> list[bytes]:
    hp.init()
    torch.manual_seed(1)
    model = nn.Linear(2000, 50, bias=False)
    with torch.no_grad():
        model.weight.zero_()
    model.to(place)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    optimizer = hp.DistributedOptimizer(optimizer, model.named_parameters(), codec="onebit")
    hp.broadcast_parameters(model.state_dict(), root_rank=0)
    for step in range(3):
        optimizer.zero_grad()
        # The gradient has one term for each element, so it is the same on every device.
        row = torch.randn(1, 2000, generator=torch.Generator().manual_seed(10 * step + hp.rank())).to(place)
        model(row).sum().backward()
        optimizer.step()
    return [parameter.detach().cpu().numpy().tobytes() for parameter in model.parameters()]


def _hooked(place: str, folder: str) -> list[bytes]:
    """The parameters after some steps of DistributedDataParallel with the hook, over NCCL or Gloo."""
    rank, world = int(os.environ["HIPRESS_RANK"]), int(os.environ["HIPRESS_SIZE"])
    device = torch.device(f"cuda:{rank}" if place == "cuda" else "cpu")
    store = dist.FileStore(f"{folder}/{place}", world)
    dist.init_process_group("nccl" if place == "cuda" else "gloo", store=store, rank=rank, world_size=world)
    try:
        model = nn.Linear(2000, 50, bias=False)
        with torch.no_grad():
            model.weight.zero_()
        wrapped = DistributedDataParallel(model.to(device))
        state = ddp.compress(wrapped, codec="onebit")
        optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.5)
        for step in range(3):
            optimizer.zero_grad()
            row = torch.randn(1, 2000, generator=torch.Generator().manual_seed(10 * step + rank)).to(device)
            wrapped(row).sum().backward()
            optimizer.step()
        states = [
            np.asarray(values).tobytes() for each in state.state_dict()["states"].values() for values in each.values()
        ]
        return [model.weight.detach().cpu().numpy().tobytes(), *states]
    finally:
        dist.destroy_process_group()


def test_the_hook_over_nccl_gives_the_bits_of_gloo(tmp_path: Path) -> None:
    require_gpu(None if torch.cuda.is_available() else "torch finds no GPU, or was built without CUDA")
    world = min(2, torch.cuda.device_count())  # NCCL takes a GPU for each rank
    assert run(_hooked, world, "cuda", str(tmp_path)) == run(_hooked, world, "cpu", str(tmp_path))


@pytest.mark.parametrize("program", [_combined, _trained])
def test_the_bits_of_the_host(program: Any) -> None:
    require_gpu(None if torch.cuda.is_available() else "torch finds no GPU, or was built without CUDA")
    assert run(program, 2, "cuda:0") == run(program, 2, "cpu")
