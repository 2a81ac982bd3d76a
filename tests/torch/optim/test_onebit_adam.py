# SPDX-License-Identifier: Apache-2.0
"""Every step of OneBitAdam equals the step of 1-bit Adam (Tang et al., 2021, algorithm 1), replayed in NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import hipress.torch as hp
from hipress.torch.optim import OneBitAdam
from tests.torch.optim import problem
from tests.torch.optim.averaging import TwoSided, owner_by_name
from tests.torch.ranks import run

pytestmark = pytest.mark.slow

OPTIONS: dict[str, Any] = {"lr": 0.01, "betas": (0.9, 0.99), "eps": 1e-8, "weight_decay": 0.1}
FREEZE, STEPS = 4, 12
_EXACT = ("small", "one")  # smaller than min_compress_bytes


def _first_owners(carrier: str, world: int) -> dict[str, int]:
    compressed = [name for name in problem.SHAPES if name not in _EXACT]
    prefix = "onebitadam." if carrier == "engine" else ""
    return {name: owner_by_name(prefix + name, world) for name in compressed}


def replayed(world: int, carrier: str, freeze: int = FREEZE, steps: int = STEPS) -> list[problem.Values]:
    """The parameters after each step."""
    x = problem.start()
    (beta1, beta2), f = OPTIONS["betas"], np.float32
    m = {name: np.zeros_like(each) for name, each in x.items()}
    v = {name: np.zeros_like(each) for name, each in x.items()}
    averages = {name: TwoSided(x[name].size, world, first) for name, first in _first_owners(carrier, world).items()}
    history = []
    for step in range(1, steps + 1):
        for name in x:
            gradients = [problem.gradient(name, x[name], rank, step) for rank in range(world)]
            if step <= freeze:
                g = sum(gradients) / f(world)
                m[name] = f(beta1) * m[name] + f(1 - beta1) * g
                v[name] = f(beta2) * v[name] + f(1 - beta2) * g * g
            else:
                moved = [f(beta1) * m[name] + f(1 - beta1) * g for g in gradients]
                if name in averages:
                    average = averages[name].average([each.ravel() for each in moved])
                    m[name] = average.reshape(x[name].shape)
                else:
                    m[name] = np.asarray(sum(moved) / f(world))
                m[name] = np.where(v[name] == 0, f(0), m[name])
            m_hat = m[name] / f(1 - beta1**step)
            v_hat = v[name] / f(1 - beta2 ** min(step, freeze))
            x[name] = x[name] * f(1 - OPTIONS["lr"] * OPTIONS["weight_decay"])
            x[name] = x[name] - f(OPTIONS["lr"]) * m_hat / (np.sqrt(v_hat) + f(OPTIONS["eps"]))
        history.append(dict(x))
    return history


def _history(folder: str) -> list[problem.Values]:
    with problem.carried(folder) as (rank, carrier):
        named = problem.parameters()
        optimizer = OneBitAdam(named.items(), **OPTIONS, freeze_step=FREEZE, **carrier)
        history = []
        for step in range(1, STEPS + 1):
            assert optimizer.frozen == (step > FREEZE)
            problem.step(optimizer, named, rank, step)
            history.append(problem.values_of(named))
        assert optimizer.steps == STEPS
        del optimizer
        return history


@pytest.mark.parametrize("carrier", ["engine", "group"])
@pytest.mark.parametrize("world", [2, 4])
def test_every_step_is_that_of_the_paper(world: int, carrier: str, tmp_path: Path) -> None:
    ranks = run(_history, world, str(tmp_path) if carrier == "group" else "")
    expected = replayed(world, carrier)
    for step, wanted in enumerate(expected):
        for name, each in wanted.items():
            for history in ranks:
                assert np.array_equal(history[step][name], ranks[0][step][name])
            np.testing.assert_allclose(ranks[0][step][name], each, rtol=0, atol=1e-5, err_msg=f"{name}, step {step}")
    row = [history[-1]["odd"][2] for history in ranks]
    decay = (1 - OPTIONS["lr"] * OPTIONS["weight_decay"]) ** STEPS
    np.testing.assert_allclose(row[0], problem.start()["odd"][2] * decay, rtol=1e-5)


def _beside_adamw() -> None:
    """Until the variance is frozen, steps equal AdamW's; OneBitAdam continues from AdamW's state."""
    hp.init()
    mine, theirs = problem.parameters(), problem.parameters()
    onebit = OneBitAdam(mine.items(), **OPTIONS, freeze_step=100)
    adamw = torch.optim.AdamW(theirs.values(), **OPTIONS)
    for step in range(1, 9):
        if step == 5:
            onebit.load_state_dict(adamw.state_dict())
        problem.step(onebit, mine, 0, step)
        problem.step(adamw, theirs, 0, step)
        for name, each in mine.items():
            torch.testing.assert_close(each, theirs[name], rtol=0, atol=1e-6)


def test_steps_before_the_freeze_are_those_of_adamw() -> None:
    run(_beside_adamw, 2)
