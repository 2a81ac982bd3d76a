# SPDX-License-Identifier: Apache-2.0
"""PowerSGD with DistributedDataParallel equals its definition over both carriers, keeps its states, and refuses wrong
use."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.parallel import DistributedDataParallel

import hipress.torch as hp
from hipress.torch import ddp
from hipress.torch.process_groups.average import GroupAverage
from hipress.torch.process_groups.dtypes import TensorShape
from hipress.torch.process_groups.options import GroupOptions
from tests.core.casync.powersgd_reference import Reference
from tests.torch.ddp import training
from tests.torch.ranks import run

pytestmark = pytest.mark.slow

CODEC = "powersgd(rank=2)"
STEPS = 5


class OneMatrix(torch.nn.Module):
    """A module whose gradient is the argument of forward()."""

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.matrix = torch.nn.Parameter(torch.zeros(120, 90, dtype=dtype))

    def forward(self, gradient: torch.Tensor) -> torch.Tensor:
        return (self.matrix * gradient).sum()


def gradient(rank: int, step: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1000 * step + rank)
    return torch.randn(120, 90, generator=generator) + torch.ones(120, 1) * torch.arange(90) / 90


def averages(model: DistributedDataParallel, rank: int, steps: range, dtype: torch.dtype = torch.float32) -> list[Any]:
    results = []
    for step in steps:
        model.module.matrix.grad = None
        model(gradient(rank, step).to(dtype)).backward()
        results.append(model.module.matrix.grad.float().numpy().copy())
    return results


@training.in_process_group
def _averaged(rank: int, carrier: str, half: bool, options: dict[str, Any]) -> list[Any]:
    dtype = torch.bfloat16 if half else torch.float32
    if carrier == "hipress":
        hp.init()
    model = DistributedDataParallel(OneMatrix(dtype))
    ddp.compress(model, CODEC, carrier=carrier, min_compress_bytes=0, **options)
    return averages(model, rank, range(STEPS), dtype)


@pytest.mark.parametrize("carrier", ["group", "hipress"])
def test_both_carriers_average_as_the_definition_says(tmp_path: Path, carrier: str) -> None:
    by_rank = run(_averaged, 3, str(tmp_path), carrier, False, {})
    reference = Reference((120, 90), 3, rank=2)
    for step in range(STEPS):
        expected = reference.step([gradient(rank, step).numpy() for rank in range(3)])
        for results in by_rank:
            assert results[step].tobytes() == by_rank[0][step].tobytes()
            np.testing.assert_allclose(results[step], expected, rtol=0, atol=5e-6)


@pytest.mark.parametrize("carrier", ["group", "hipress"])
def test_bfloat16_after_a_warm_up(tmp_path: Path, carrier: str) -> None:
    """Two steps without a codec are exact. Later steps equal steps in float32, rounded once."""
    results, again = run(_averaged, 2, str(tmp_path), carrier, True, {"warmup": 2})
    assert [each.tobytes() for each in results] == [each.tobytes() for each in again]
    reference = Reference((120, 90), 2, rank=2)
    # With its codec, the engine counts only a tensor's compressed steps. The process group counts all steps.
    reference.steps = 2 if carrier == "group" else 0
    for step in range(STEPS):
        values = [gradient(rank, step).bfloat16().float().numpy() for rank in range(2)]
        expected = np.mean(values, axis=0) if step < 2 else reference.step(values)
        np.testing.assert_allclose(results[step], expected, rtol=2**-7, atol=1e-4)


@training.in_process_group
def _interrupted(rank: int, carrier: str) -> tuple[list[Any], list[Any], Any]:
    """The averages after a restart in the middle, the averages without the restart, and all ranks' states in the
    middle."""
    if carrier == "hipress":
        hp.init()
    options: dict[str, Any] = {"carrier": carrier, "min_compress_bytes": 0}
    model = DistributedDataParallel(OneMatrix())
    state = ddp.compress(model, CODEC, **options)
    averages(model, rank, range(3))
    saved = pickle.dumps(state.state_dict())
    of_all = state.states_of_all()
    expected = averages(model, rank, range(3, STEPS))
    restarted = DistributedDataParallel(OneMatrix())
    state = ddp.compress(restarted, CODEC, **options)
    state.load_state_dict(pickle.loads(saved))
    return averages(restarted, rank, range(3, STEPS)), expected, of_all if rank == 0 else None


@training.in_process_group
def _on_fewer_ranks(rank: int, carrier: str, saved: list[Any]) -> list[Any]:
    if carrier == "hipress":
        hp.init()
    model = DistributedDataParallel(OneMatrix())
    state = ddp.compress(model, CODEC, carrier=carrier, min_compress_bytes=0)
    state.load_states_of(saved)
    return averages(model, rank, range(3, STEPS))


@pytest.mark.parametrize("carrier", ["group", "hipress"])
def test_states_survive_a_restart_also_on_fewer_ranks(tmp_path: Path, carrier: str) -> None:
    folders = [tmp_path / name for name in ("same", "fewer")]
    for folder in folders:
        folder.mkdir()
    by_rank = run(_interrupted, 3, str(folders[0]), carrier)
    for after, expected, _ in by_rank:
        assert [each.tobytes() for each in after] == [each.tobytes() for each in expected]

    results = run(_on_fewer_ranks, 2, str(folders[1]), carrier, by_rank[0][2])
    reference = Reference((120, 90), 3, rank=2)
    for step in range(3):
        reference.step([gradient(rank, step).numpy() for rank in range(3)])
    mean = np.mean(reference.residuals, axis=0, dtype=np.float64).astype(np.float32)
    reference.residuals = [mean, mean]  # each of the two ranks gets the residual that the average lacks
    for index, step in enumerate(range(3, STEPS)):
        expected = reference.step([gradient(rank, step).numpy() for rank in range(2)])
        for result in results:
            np.testing.assert_allclose(result[index], expected, rtol=0, atol=1e-5)


@training.in_process_group
def _refusals(rank: int) -> None:
    model = DistributedDataParallel(OneMatrix())
    with pytest.raises(hp.Unsupported, match="use topology 'ps' with it"):
        ddp.compress(model, CODEC, topology="hierarchical", ranks_per_host=1)
    with pytest.raises(hp.Unsupported, match="begins after steps without a codec"):
        ddp.compress(model, CODEC, warmup=hp.Warmup(2, codec="fp16"))
    with pytest.raises(hp.Unsupported, match="begins after steps without a codec"):
        ddp.compress(model, "int8", warmup=hp.Warmup(2, codec=CODEC))
    with pytest.raises(hp.Unsupported, match="needs whole matrices"):
        GroupAverage({"w": TensorShape(10800, torch.float32, 2)}, None, GroupOptions(CODEC))
    with pytest.raises(hp.InvalidArgument, match="has no option 'ranks'"):
        ddp.compress(model, "powersgd(ranks=2)")


def test_what_the_group_carrier_cannot_do_is_refused(tmp_path: Path) -> None:
    run(_refusals, 2, str(tmp_path))
