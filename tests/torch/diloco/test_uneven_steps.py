# SPDX-License-Identifier: Apache-2.0
"""Ranks whose inner steps drift apart: a gradient scaler leaves one out, or a rank has fewer batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import hipress.torch as hp
from hipress.errors import Mismatch
from tests.torch import models
from tests.torch.diloco import replay
from tests.torch.optim import problem
from tests.torch.ranks import outcomes, run

pytestmark = pytest.mark.slow

_WAYS: list[dict[str, Any]] = [
    {"sync_every": 4},
    {"sync_every": 4, "fragments": 2, "overlap_steps": 1, "mix": 0.5},
    {"preset": "sparseloco", "sync_every": 4},
]


def _scaled_step(
    scaler: torch.amp.GradScaler, model: torch.nn.Module, optimizer: torch.optim.Optimizer, step: int, overflow: bool
) -> None:
    generator = torch.Generator().manual_seed(step)
    optimizer.zero_grad()
    scaler.scale(model(torch.randn(8, 16, generator=generator)).square().mean()).backward()
    if overflow:
        for each in model.parameters():
            assert each.grad is not None
            each.grad.fill_(torch.inf)
    scaler.step(optimizer)
    scaler.update()


def _with_a_scaler(folder: str, ways: list[dict[str, Any]], overflows: list[int]) -> list[Any]:
    results = []
    with problem.carried(folder) as (rank, carrier):
        for way in ways:
            model = models.mlp(0, 24)
            optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
            diloco = hp.DiLoCo(model, optimizer, **way, **carrier)
            scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
            for step in range(12):
                before = replay.values_of(model)
                overflow = rank == 1 and step in overflows
                _scaled_step(scaler, model, optimizer, step, overflow)
                if overflow and (step + 1) % 4 > 1:
                    assert all(np.array_equal(each, before[name]) for name, each in replay.values_of(model).items())
                    assert all(each.grad is not None for each in model.parameters())
            counted = {int(each["step"]) for each in optimizer.state.values()}
            with diloco.outer_parameters():
                outer = replay.values_of(model)
            results.append((counted, diloco.state_dict()["step"], outer))
            # A rank that ends without detach() would wait for none.
        return results


@pytest.mark.parametrize("carrier", ["engine", "group"])
def test_a_step_that_a_gradient_scaler_leaves_out_on_one_rank_counts(carrier: str, tmp_path: Path) -> None:
    folder = str(tmp_path) if carrier == "group" else ""
    first, second = run(_with_a_scaler, 2, folder, _WAYS, [5, 9])
    for (full, steps, outer), (fewer, others, same) in zip(first, second, strict=True):
        assert (full, fewer, steps, others) == ({12}, {10}, 12, 12)
        assert all(np.array_equal(each, same[name]) for name, each in outer.items())


def _scaled_and_plain() -> list[replay.Values]:
    """The parameters after 6 steps with and without DiLoCo, of which one overflows."""
    hp.init()
    results = []
    for through in (False, True):
        model = models.mlp(0, 24)
        optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
        diloco = hp.DiLoCo(model, optimizer, sync_every=100) if through else None
        scaler = torch.amp.GradScaler("cpu", init_scale=1000.0)
        for step in range(6):
            _scaled_step(scaler, model, optimizer, step, step == 3)
        results.append(replay.values_of(model))
        if diloco is not None:
            diloco.detach()
            assert not hasattr(optimizer, "_step_supports_amp_scaling")
    return results


def test_a_scalers_steps_are_those_without_diloco() -> None:
    plain, through = run(_scaled_and_plain, 1)[0]
    assert all(np.array_equal(each, through[name]) for name, each in plain.items())


def _with_fewer_batches(folder: str, ways: list[dict[str, Any]], counts: list[int]) -> list[replay.Values]:
    results = []
    with problem.carried(folder) as (rank, carrier):
        for way in ways:
            model = models.mlp(rank, 24)
            optimizer = replay.inner_optimizer(model)
            diloco = hp.DiLoCo(model, optimizer, **way, **carrier)
            for step in range(1, counts[rank] + 1):
                replay.inner_step(model, optimizer, rank, step)
            diloco.detach()
            with diloco.outer_parameters():
                results.append(replay.values_of(model))
            replay.inner_step(model, optimizer, rank, 100)  # a plain optimizer again
            diloco.detach()
        return results


@pytest.mark.parametrize("carrier", ["engine", "group"])
def test_ranks_that_end_with_different_counts_end_together(carrier: str, tmp_path: Path) -> None:
    folder = str(tmp_path) if carrier == "group" else ""
    ranks = run(_with_fewer_batches, 3, folder, _WAYS, [6, 13, 9])
    for each in ranks[1:]:
        for number, values in enumerate(ranks[0]):
            assert all(np.array_equal(value, each[number][name]) for name, value in values.items())


def _without_an_end() -> None:
    hp.init()
    model = models.mlp(hp.rank(), 24)
    optimizer = replay.inner_optimizer(model)
    diloco = hp.DiLoCo(model, optimizer, sync_every=4)
    for step in range(1, (6, 9)[hp.rank()]):
        replay.inner_step(model, optimizer, hp.rank(), step)
    del diloco


def test_an_end_without_detach_is_explained_to_the_rank_that_goes_on() -> None:
    ended, alone = outcomes(_without_an_end, 2)
    assert ended is None
    assert isinstance(alone, Mismatch)
    assert "rank 0 has left the job (it called shutdown() after 5 steps)" in str(alone)
    assert "after 8 inner steps" in str(alone)
    assert "DiLoCo.detach()" in str(alone)
