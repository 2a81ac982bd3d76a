# SPDX-License-Identifier: Apache-2.0
"""Every step of ZeroOneAdam equals the step of 0/1 Adam (Lu et al., 2022; DeepSpeed's code), replayed in NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hipress.torch as hp
from hipress.torch.optim import ZeroOneAdam
from hipress.torch.optim.intervals import local_interval, updates_variance
from tests.torch.optim import problem
from tests.torch.optim.averaging import TwoSided, owner_by_name
from tests.torch.ranks import run

#: Epsilon is large: a variance near 0, from few gradients, would make steps so long that rounding shows.
OPTIONS: dict[str, Any] = {"lr": 0.01, "betas": (0.9, 0.99), "eps": 1e-2, "weight_decay": 0.1}
NUMBERS = {"var_freeze_step": 7, "var_update_scaler": 2, "local_step_scaler": 3, "local_step_clipper": 4}
STEPS = 20
#: Counted by hand from the published rules: two exact steps per interval; after the freeze three steps per interval,
#: which has at most 4.
EXACT = {1, 2, 4, 6}
SYNCHRONIZED = {*range(1, 11), 12, 16, 20}
_UNCOMPRESSED = ("small", "one")  # smaller than min_compress_bytes


def _averages(kind: str, carrier: str, world: int) -> dict[str, TwoSided]:
    compressed = [name for name in problem.SHAPES if name not in _UNCOMPRESSED]
    counts = {name: int(np.prod(problem.SHAPES[name])) for name in compressed}
    prefix = f"{kind}." if carrier == "engine" else ""
    return {name: TwoSided(counts[name], world, owner_by_name(prefix + name, world)) for name in compressed}


def _average(through: dict[str, TwoSided], name: str, values: list[Any]) -> Any:
    if name not in through:
        return np.asarray(sum(values) / np.float32(len(values)), np.float32)
    return through[name].average([each.ravel() for each in values]).reshape(values[0].shape)


def replayed(world: int, carrier: str) -> list[list[problem.Values]]:
    """Each rank's parameters after each step."""
    f, (beta1, beta2), lr = np.float32, OPTIONS["betas"], OPTIONS["lr"]
    kept = 1 - lr * OPTIONS["weight_decay"]
    x = [problem.start() for _ in range(world)]
    m = [{name: np.zeros_like(each) for name, each in x[0].items()} for _ in range(world)]
    u = [{name: np.zeros_like(each) for name, each in x[0].items()} for _ in range(world)]
    v = {name: np.zeros_like(each) for name, each in x[0].items()}
    base, lr_sum, decay = problem.start(), 0.0, 1.0
    of_gradients = _averages("zerooneadam_gradients", carrier, world)
    of_updates = _averages("zerooneadam", carrier, world)
    history = []
    for step in range(1, STEPS + 1):
        g = [{name: problem.gradient(name, x[rank][name], rank, step) for name in v} for rank in range(world)]
        local = step > NUMBERS["var_freeze_step"]
        lr_sum, decay = (lr_sum + lr, decay * kept) if local else (0.0, 1.0)
        for name in v:
            if not local:
                average = _average({} if step in EXACT else of_gradients, name, [each[name] for each in g])
                if step in EXACT:
                    v[name] = f(beta2) * v[name] + f(1 - beta2) * average * average
            divisor = np.sqrt(v[name]) + f(OPTIONS["eps"])
            for rank in range(world):
                own = g[rank][name] if local else average
                m[rank][name] = np.where(v[name] == 0, f(0), f(beta1) * m[rank][name] + f(1 - beta1) * own)
                x[rank][name] = x[rank][name] * f(kept) - f(lr) * m[rank][name] / divisor
                if local:
                    u[rank][name] = u[rank][name] + f(lr) * m[rank][name]
            if local and step in SYNCHRONIZED:
                total = _average(of_updates, name, [each[name] for each in u])
                total = np.where(v[name] == 0, f(0), total)
                for rank in range(world):
                    x[rank][name] = base[name] * f(decay) - total / divisor
                    m[rank][name] = total / f(lr_sum)
                    u[rank][name] = np.zeros_like(total)
            if step in SYNCHRONIZED:
                base[name] = x[0][name]
        if step in SYNCHRONIZED:
            lr_sum, decay = 0.0, 1.0
        history.append([dict(each) for each in x])
    return history


def _history(folder: str) -> tuple[list[problem.Values], list[bool], list[int]]:
    with problem.carried(folder) as (rank, carrier):
        named = problem.parameters()
        optimizer = ZeroOneAdam(named.items(), **OPTIONS, **NUMBERS, **carrier)
        history, synchronized, sent = [], [], [0]
        for step in range(1, STEPS + 1):
            assert optimizer.frozen == (step > NUMBERS["var_freeze_step"])
            problem.step(optimizer, named, rank, step)
            history.append(problem.values_of(named))
            synchronized.append(optimizer.synchronized)
            sent.append(optimizer.sent_bytes)
        assert optimizer.steps == STEPS
        del optimizer
        return history, synchronized, sent if folder else []


@pytest.mark.slow
@pytest.mark.parametrize(("world", "carrier"), [(2, "engine"), (4, "group")])
def test_every_step_is_that_of_the_paper(world: int, carrier: str, tmp_path: Path) -> None:
    ranks = run(_history, world, str(tmp_path) if carrier == "group" else "")
    expected = replayed(world, carrier)
    for rank, (history, synchronized, sent) in enumerate(ranks):
        assert synchronized == [step in SYNCHRONIZED for step in range(1, STEPS + 1)]
        for step in range(1, STEPS + 1):
            same = all(np.array_equal(each, ranks[0][0][step - 1][name]) for name, each in history[step - 1].items())
            assert same == (rank == 0 or step in SYNCHRONIZED)
            for name, each in expected[step - 1][rank].items():
                np.testing.assert_allclose(history[step - 1][name], each, rtol=0, atol=1e-5, err_msg=f"{name}, {step}")
        if sent:  # a process group counts compressed bytes only
            grew = {step for step in range(1, STEPS + 1) if sent[step] > sent[step - 1]}
            assert grew == SYNCHRONIZED - EXACT


def test_the_intervals_are_the_published_ones() -> None:
    assert {step for step in range(1, 8) if updates_variance(step, 2)} == EXACT
    steps = [step for step in range(1, 200) if updates_variance(step, 16)]
    assert steps == [*range(1, 17), *range(18, 49, 2), *range(52, 113, 4), *range(120, 200, 8)]
    # The loop repeats DeepSpeed's counters step by step.
    interval, counter, wanted = 1, 0, []
    for step in range(1, 400):
        if step % interval == 0:
            wanted.append(step)
            counter += 1
            if counter == 3:
                interval, counter = 2 * interval, 0
    assert [step for step in range(1, 400) if updates_variance(step, 3)] == wanted
    assert [local_interval(after, 3, 4) for after in range(-2, 12)] == [1] * 6 + [2] * 3 + [4] * 5
    assert local_interval(10**9, 1, 16) == 16
    assert local_interval(5, 1, 12) == 12


def _without_learning_rate() -> None:
    """A step with learning rate 0, between steps with another, changes no parameter."""
    hp.init()
    named = problem.parameters()
    optimizer = ZeroOneAdam(named.items(), lr=0.01, var_freeze_step=1)
    for step in range(1, 4):
        before = problem.values_of(named)
        optimizer.param_groups[0]["lr"] = 0.0 if step == 3 else 0.01
        problem.step(optimizer, named, hp.rank(), step)
        after = problem.values_of(named)
        assert all(np.isfinite(each).all() for each in after.values())
        assert np.array_equal(before["one"], after["one"]) == (step == 3)
    digest = b"".join(each.tobytes() for each in problem.values_of(named).values())
    assert len(set(hp.allgather_object(digest))) == 1


@pytest.mark.slow
def test_a_learning_rate_of_zero_moves_nothing_that_travels_exactly() -> None:
    run(_without_learning_rate, 2)
