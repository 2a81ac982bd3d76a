# SPDX-License-Identifier: Apache-2.0
"""Codecs whose encoded values ranks add, with DistributedDataParallel over both carriers, against the definition."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.parallel import DistributedDataParallel

import hipress.torch as hp
from hipress.compll import Interpreter, compile_builtin
from hipress.torch import ddp
from hipress.torch.process_groups.options import GroupOptions
from tests.core.casync.summed.reference import Reference
from tests.torch.ddp import training
from tests.torch.ddp.test_powersgd import OneMatrix, averages, gradient
from tests.torch.ranks import run

pytestmark = pytest.mark.slow

CODEC = "int8_shared(levels=42)"
STEPS = 4


def reference(world: int, name: str = "int8_shared") -> Reference:
    return Reference(Interpreter(compile_builtin(name), levels=42), 120 * 90, world)


@training.in_process_group
def _averaged(rank: int, carrier: str, codec: str, bad: int) -> list[Any]:
    """The averages; of step `bad` the gradient of rank 1 is not finite."""
    if carrier == "hipress":
        hp.init()
    model = DistributedDataParallel(OneMatrix())
    ddp.compress(model, codec, carrier=carrier, min_compress_bytes=0)
    results = []
    for step in range(STEPS):
        if (rank, step) == (1, bad):
            model.module.matrix.grad = None
            model(gradient(rank, step).index_fill(0, torch.tensor([3]), torch.inf)).backward()
            results.append(model.module.matrix.grad.numpy().copy())
        else:
            results += averages(model, rank, range(step, step + 1))
    return results


@pytest.mark.parametrize(
    ("carrier", "name", "factor"),
    [("group", "int8_shared", 1.0), ("hipress", "int8_shared", 1.0), ("group", "thc", 1.0), ("group", "thc", 0.7)],
)
def test_both_carriers_average_as_the_definition_says(tmp_path: Path, carrier: str, name: str, factor: float) -> None:
    by_rank = run(_averaged, 3, str(tmp_path), carrier, f"{name}(levels=42, gradient_factor={factor})", 2)
    definition = reference(3, name)
    for step in range(STEPS):
        values = [gradient(rank, step).numpy() * np.float32(factor) for rank in range(3)]
        if step == 2:
            values[1] = values[1].copy()
            values[1][3] = np.inf
        expected = definition.step(values)
        for results in by_rank:
            np.testing.assert_array_equal(results[step].ravel(), expected, err_msg=f"step {step}")


@training.in_process_group
def _interrupted(rank: int) -> tuple[list[Any], list[Any], Any]:
    """The averages after a restart in the middle, those without it, and the states of all ranks in the middle."""
    options: dict[str, Any] = {"carrier": "group", "min_compress_bytes": 0}
    model = DistributedDataParallel(OneMatrix())
    state = ddp.compress(model, CODEC, **options)
    averages(model, rank, range(2))
    saved, of_all = pickle.dumps(state.state_dict()), state.states_of_all()
    expected = averages(model, rank, range(2, STEPS))
    restarted = DistributedDataParallel(OneMatrix())
    state = ddp.compress(restarted, CODEC, **options)
    state.load_state_dict(pickle.loads(saved))
    return averages(restarted, rank, range(2, STEPS)), expected, of_all if rank == 0 else None


@training.in_process_group
def _on_fewer_ranks(rank: int, saved: list[Any]) -> list[Any]:
    model = DistributedDataParallel(OneMatrix())
    state = ddp.compress(model, CODEC, carrier="group", min_compress_bytes=0)
    state.load_states_of(saved)
    return averages(model, rank, range(2, 3))


def test_states_survive_a_restart_also_on_fewer_ranks(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("same", "fewer")]
    for folder in folders:
        folder.mkdir()
    by_rank = run(_interrupted, 3, str(folders[0]))
    for after, expected, _ in by_rank:
        assert [each.tobytes() for each in after] == [each.tobytes() for each in expected]
    (first, second) = run(_on_fewer_ranks, 2, str(folders[1]), by_rank[0][2])
    before, definition = reference(3), reference(2)
    for step in range(2):
        before.step([gradient(rank, step).numpy() for rank in range(3)])
    mean = np.mean([states["residual"] for states in before.states], axis=0, dtype=np.float64).astype(np.float32)
    definition.states, definition.steps = [{"residual": mean.copy()} for _ in range(2)], 2
    result = definition.step([gradient(rank, 2).numpy() for rank in range(2)])
    for found in (first, second):
        np.testing.assert_array_equal(found[0].ravel(), result)


@training.in_process_group
def _refusals(rank: int) -> None:
    model = DistributedDataParallel(OneMatrix())
    with pytest.raises(hp.Unsupported, match="int8_shared is summed over all ranks alike"):
        ddp.compress(model, CODEC, topology="hierarchical", ranks_per_host=1)
    with pytest.raises(hp.Unsupported, match="begins after steps without a codec"):
        ddp.compress(model, CODEC, warmup=hp.Warmup(2, codec="fp16"))
    with pytest.raises(hp.InvalidArgument, match=r"holds the sum of 1 ranks at most, and there are 2; .* up to 63"):
        ddp.compress(model, "int8_shared(levels=64)")
    with pytest.raises(hp.Unsupported, match="int8_shared is summed over all ranks alike"):
        GroupOptions(CODEC).check(["w"])  # as compress_reduce_scatter() does


def test_what_the_group_carrier_cannot_do_is_refused(tmp_path: Path) -> None:
    run(_refusals, 2, str(tmp_path))
