# SPDX-License-Identifier: Apache-2.0
"""Every step of Signum equals the step of the majority vote (Bernstein et al., 2019, algorithm 1), replayed in
NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hipress.torch.optim import Signum
from tests.torch.optim import problem
from tests.torch.ranks import run

pytestmark = pytest.mark.slow

STEPS = 8
LR, BETA, DECAY = 0.01, 0.8, 0.1


def replayed(world: int) -> list[problem.Values]:
    """The parameters after each step."""
    x, f = problem.start(), np.float32
    m = [{name: np.zeros_like(each) for name, each in x.items()} for _ in range(world)]
    history = []
    for step in range(1, STEPS + 1):
        for name in x:
            for rank, own in enumerate(m):
                own[name] = f(BETA) * own[name] + f(1 - BETA) * problem.gradient(name, x[name], rank, step)
            votes = sum(np.where(own[name] >= 0, 1, -1) for own in m)
            x[name] = x[name] * f(1 - LR * DECAY) - f(LR) * np.sign(votes).astype(np.float32)
        history.append(dict(x))
    return history


def _history(folder: str) -> list[problem.Values]:
    with problem.carried(folder) as (rank, carrier):
        named = problem.parameters()
        optimizer = Signum(named.items(), lr=LR, momentum=BETA, weight_decay=DECAY, **carrier)
        history = []
        for step in range(1, STEPS + 1):
            problem.step(optimizer, named, rank, step)
            history.append(problem.values_of(named))
        if carrier:
            # A rank sends a bit per element and a byte per parameter to each other rank.
            elements = sum(each.numel() for each in named.values())
            assert optimizer.sent_bytes == STEPS * (problem.world() - 1) * (len(named) + (elements + 7) // 8)
        del optimizer
        return history


@pytest.mark.parametrize(("world", "carrier"), [(2, "engine"), (4, "group")])
def test_every_step_is_that_of_the_paper(world: int, carrier: str, tmp_path: Path) -> None:
    ranks = run(_history, world, str(tmp_path) if carrier == "group" else "")
    for step, wanted in enumerate(replayed(world)):
        for name, each in wanted.items():
            for history in ranks:
                assert np.array_equal(history[step][name], ranks[0][step][name])
            np.testing.assert_allclose(ranks[0][step][name], each, rtol=0, atol=1e-5, err_msg=f"{name}, step {step}")
