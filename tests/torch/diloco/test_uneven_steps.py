# SPDX-License-Identifier: Apache-2.0
"""Ranks whose inner steps drift apart: a gradient scaler leaves one out, or a rank has fewer batches."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist

import hipress.torch as hp
from hipress.errors import Mismatch
from tests.ranks import clean_environment
from tests.torch import models
from tests.torch.diloco import replay
from tests.torch.optim import problem
from tests.torch.ranks import run

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


def _without_an_end(folder: str, way: dict[str, Any], counts: list[int], then_ends: bool) -> str | None:
    """What the steps or detach() of a rank raise after another one has ended without detach(), and lives on."""
    with problem.carried(folder) as (rank, carrier):
        model = models.mlp(rank, 24)
        optimizer = replay.inner_optimizer(model)
        diloco = hp.DiLoCo(model, optimizer, **way, **carrier)
        try:
            for step in range(1, counts[rank] + 1):
                replay.inner_step(model, optimizer, rank, step)
            if rank == 1 and then_ends:
                diloco.detach()
        except Mismatch as error:
            return str(error)
        finally:
            del model, optimizer, diloco
            # torch's first optimizer in a process stays in a cycle of frames.
            gc.collect()
            if folder:
                dist.barrier()  # the process, and its group, live on
        return None


@pytest.mark.parametrize(
    ("carrier", "way", "counts", "then_ends"),
    [
        ("engine", _WAYS[0], [5, 8], False),
        *(("group", way, [5, 8], False) for way in _WAYS),
        ("group", _WAYS[0], [5, 7, 8], True),
    ],
    ids=["engine", "group", "group-streaming", "group-sparseloco", "group-detach"],
)
def test_an_end_without_detach_is_explained_to_the_ranks_that_go_on(
    carrier: str, way: dict[str, Any], counts: list[int], then_ends: bool, tmp_path: Path
) -> None:
    folder = str(tmp_path) if carrier == "group" else ""
    ended, *others = run(_without_an_end, len(counts), folder, way, counts, then_ends)
    assert ended is None
    how = r"ended without detach\(\)" if folder else r"called shutdown\(\)"
    for each in others:
        assert re.search(rf"rank 0( of \d)? has left the job \(it {how} after 5 steps\)", each)
        assert re.search(r"This rank waited for an exchange after [678] inner steps; .* call DiLoCo.detach\(\)", each)


_ENDS = """
import torch, torch.distributed as dist, hipress.torch as hp
torch.set_num_threads(1)
dist.init_process_group("gloo")
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.AdamW(model.parameters())
diloco = hp.DiLoCo(model, optimizer, sync_every=4, group=dist.group.WORLD)
for step in range((5, 8)[dist.get_rank()]):
    model(torch.ones(8)).sum().backward()
    try:
        optimizer.step()
    except hp.Mismatch as error:
        print(error)
        break
"""


@pytest.mark.thorough
def test_a_process_that_has_ended_without_detach_is_named(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(_ENDS)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "train.py"]
    done = subprocess.run(
        command, cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, timeout=120.0, check=True
    )
    assert "rank 0 of 2 has left the job (it ended without detach() after 5 steps)" in done.stdout
