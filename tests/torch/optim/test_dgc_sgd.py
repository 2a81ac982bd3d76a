# SPDX-License-Identifier: Apache-2.0
"""Every step of DGCSGD equals the step of deep gradient compression (Lin et al., 2018, algorithm 1), replayed in
NumPy."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import hipress.torch as hp
from hipress.torch.optim import DGC_RATIOS, DGCSGD, Warmup
from tests.torch.optim import problem
from tests.torch.ranks import run

pytestmark = pytest.mark.slow

STEPS = 12
_SPARSE = ("large", "odd")


def _largest(values: Any, ratio: float) -> Any:
    return np.argsort(-np.abs(values), kind="stable")[: math.ceil(ratio * values.size)]


def replayed(world: int, options: dict[str, Any], ratios: list[float]) -> list[problem.Values]:
    """The parameters after each step; `ratios`: the ratio of each step."""
    f = np.float32
    m, lr, decay = f(options.get("momentum", 0.9)), f(options["lr"]), f(options.get("weight_decay", 0))
    nesterov, masks = options.get("nesterov", False), options.get("momentum_masking", True)
    limit = options.get("clip_norm", math.inf) / math.sqrt(world)
    x = problem.start()
    u = [{name: np.zeros_like(each) for name, each in x.items()} for _ in range(world)]
    v = [{name: np.zeros_like(each) for name, each in x.items()} for _ in range(world)]
    w = {name: np.zeros_like(each) for name, each in x.items()}
    exact = {name: np.zeros_like(each) for name, each in x.items()}
    history = []
    for step, ratio in enumerate(ratios, 1):
        g = [{name: problem.gradient(name, each, rank, step) for name, each in x.items()} for rank in range(world)]
        for own in g:
            norm = math.sqrt(sum(float(np.square(each, dtype=np.float64).sum()) for each in own.values()))
            for name in own:
                own[name] = own[name] * f(min(1.0, limit / norm))
        for name in x:
            if name in _SPARSE:
                total = np.zeros(x[name].size, np.float32)
                for rank in range(world):
                    if nesterov:
                        u[rank][name] = m * (u[rank][name] + g[rank][name])
                        v[rank][name] = v[rank][name] + u[rank][name] + g[rank][name]
                    else:
                        u[rank][name] = m * u[rank][name] + g[rank][name]
                        v[rank][name] = v[rank][name] + u[rank][name]
                    chosen = _largest(v[rank][name].ravel(), ratio)
                    total[chosen] += v[rank][name].ravel()[chosen]
                    v[rank][name].ravel()[chosen] = 0
                    if masks:
                        u[rank][name].ravel()[chosen] = 0
                update = (total / f(world)).reshape(x[name].shape)
            else:
                average = sum(each[name] for each in g) / f(world)
                exact[name] = m * exact[name] + average
                update = average + m * exact[name] if nesterov else exact[name]
            w[name] = m * w[name] + decay * x[name]
            update = update + (decay * x[name] + m * w[name] if nesterov else w[name])
            x[name] = x[name] - lr * update
        history.append(dict(x))
    return history


def _history(folder: str, options: dict[str, Any]) -> tuple[list[problem.Values], list[float]]:
    with problem.carried(folder) as (rank, carrier):
        named = problem.parameters()
        optimizer = DGCSGD(named.items(), **options, **carrier)
        history, ratios = [], []
        for step in range(1, STEPS + 1):
            ratios.append(optimizer.ratio)
            problem.step(optimizer, named, rank, step)
            history.append(problem.values_of(named))
        del optimizer
        return history, ratios


_SCHEDULE = Warmup(10, ratios=DGC_RATIOS)


@pytest.mark.parametrize(
    ("world", "carrier", "options"),
    [
        (2, "engine", {"ratio": 0.01, "clip_norm": 40.0}),
        (4, "engine", {"ratio": 0.001, "warmup": _SCHEDULE, "weight_decay": 0.1}),
        (2, "group", {"ratio": 0.05, "nesterov": True, "weight_decay": 0.1, "clip_norm": 400.0}),
        (4, "group", {"ratio": 0.02, "momentum_masking": False, "warmup": 3}),
    ],
)
def test_every_step_is_that_of_the_paper(world: int, carrier: str, options: dict[str, Any], tmp_path: Path) -> None:
    options = {"lr": 0.02, **options}
    ranks = run(_history, world, str(tmp_path) if carrier == "group" else "", options)
    ratios = ranks[0][1]
    assert ratios[-1] == options["ratio"]
    if options.get("warmup") is _SCHEDULE:
        assert ratios == [each for each in DGC_RATIOS for _ in range(2)] + [0.001] * 2
    if options.get("warmup") == 3:
        assert ratios[:4] == [1.0] * 3 + [0.02]
    for step, wanted in enumerate(replayed(world, options, ratios)):
        for name, each in wanted.items():
            for history, _ in ranks:
                assert np.array_equal(history[step][name], ranks[0][0][step][name])
            np.testing.assert_allclose(ranks[0][0][step][name], each, rtol=0, atol=1e-5, err_msg=f"{name}, step {step}")


def _beside_sgd(nesterov: bool) -> None:
    """If all values are sent and the momentum is not masked, DGCSGD equals torch's SGD."""
    hp.init()
    mine, theirs = problem.parameters(), problem.parameters()
    options: dict[str, Any] = {"lr": 0.02, "momentum": 0.9, "weight_decay": 0.1, "nesterov": nesterov}
    dgc = DGCSGD(mine.items(), **options, ratio=1.0, momentum_masking=False)
    sgd = torch.optim.SGD(theirs.values(), **options)
    for step in range(1, 7):
        problem.step(dgc, mine, 0, step)
        problem.step(sgd, theirs, 0, step)
    # Each message is one velocity, and torch's SGD also adds one velocity per step.
    for name, each in mine.items():
        torch.testing.assert_close(each, theirs[name], rtol=0, atol=1e-5)


@pytest.mark.parametrize("nesterov", [False, True])
def test_with_all_values_it_is_sgd(nesterov: bool) -> None:
    run(_beside_sgd, 1, nesterov)
