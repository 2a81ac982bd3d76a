# SPDX-License-Identifier: Apache-2.0
"""Every step of OneBitLamb equals the step of 1-bit LAMB (Li et al., 2021; DeepSpeed's code), replayed in NumPy."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hipress.torch.optim import OneBitLamb
from hipress.torch.optim.norms import norm
from tests.torch.optim import problem
from tests.torch.optim.averaging import TwoSided, owner_by_name
from tests.torch.ranks import run

#: Epsilon is large: a variance near 0, from few gradients, would make steps so long that rounding shows.
OPTIONS: dict[str, Any] = {"lr": 0.05, "betas": (0.9, 0.99), "eps": 1e-2, "weight_decay": 0.1}
#: Limits that coefficients and factors reach: of "large" and "vector" the largest coefficient, for example.
LIMITS: dict[str, Any] = {"min_coeff": 0.6, "max_coeff": 1.1, "coeff_beta": 0.5, "factor_max": 1.3, "factor_min": 0.8}
FREEZE, STEPS, THRESHOLD = 4, 14, 0.1
_EXACT = ("small", "one")  # smaller than min_compress_bytes


def _averages(carrier: str, world: int) -> dict[str, TwoSided]:
    counts = {name: int(np.prod(shape)) for name, shape in problem.SHAPES.items() if name not in _EXACT}
    prefix = "onebitlamb." if carrier == "engine" else ""
    return {name: TwoSided(count, world, owner_by_name(prefix + name, world)) for name, count in counts.items()}


def _size(values: Any) -> float:
    return math.sqrt(float(np.square(values, dtype=np.float64).sum()))


def _clipped(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)


def replayed(
    world: int, carrier: str, decay: float
) -> tuple[list[problem.Values], list[dict[str, float]], dict[str, list[float]]]:
    """The parameters and the coefficients after each step, and each parameter's factors."""
    f, (beta1, beta2), eps = np.float32, OPTIONS["betas"], np.float32(OPTIONS["eps"])
    x = problem.start()
    m, v, w = ({name: np.zeros_like(each) for name, each in x.items()} for _ in range(3))
    mean = dict.fromkeys(x, 0.0)
    factors: dict[str, list[float]] = {name: [1.0] for name in x}
    averages = _averages(carrier, world)
    history, coefficients = [], []
    for step in range(1, STEPS + 1):
        used = {}
        for name in x:
            g = [problem.gradient(name, x[name], rank, step) for rank in range(world)]
            if step <= FREEZE:
                average = sum(g) / f(world)
                m[name] = f(beta1) * m[name] + f(1 - beta1) * average
                v[name] = f(beta2) * v[name] + f(1 - beta2) * average * average
                w[name] = v[name]
            else:
                before = m[name]
                moved: Any = [f(beta1) * before + f(1 - beta1) * each for each in g]
                total = (
                    averages[name].average([each.ravel() for each in moved]).reshape(x[name].shape)
                    if name in averages
                    else sum(moved) / f(world)
                )
                m[name] = np.where(v[name] == 0, f(0), total)
                rebuilt = (m[name] - f(beta1) * before) / f(1 - beta1)
                w[name] = f(beta2) * w[name] + f(1 - beta2) * rebuilt * rebuilt
            with_variance = m[name] / (np.sqrt(v[name]) + eps)
            update = with_variance + f(decay) * x[name]
            if step <= FREEZE:
                used[name] = _clipped(_size(x[name]) / _size(update), LIMITS["min_coeff"], LIMITS["max_coeff"])
                mean[name] = LIMITS["coeff_beta"] * mean[name] + (1 - LIMITS["coeff_beta"]) * used[name]
            else:
                factor = float(((np.sqrt(v[name]) + eps) / (np.sqrt(w[name]) + eps)).max())
                if decay > 0:
                    share = min(1.0, _size(with_variance) / _size(update))
                    factor = factor * share + 1 - share
                factor = _clipped(factor, LIMITS["factor_min"], LIMITS["factor_max"])
                last = factors[name][-1]
                factors[name].append(_clipped(factor, last * (1 - THRESHOLD), last * (1 + THRESHOLD)))
                used[name] = mean[name] * factors[name][-1]
            x[name] = np.asarray(x[name] - f(OPTIONS["lr"] * used[name]) * update, np.float32)
        history.append(dict(x))
        coefficients.append(used)
    return history, coefficients, factors


def _history(folder: str, decay: float) -> tuple[list[problem.Values], list[dict[str, float]], list[int]]:
    with problem.carried(folder) as (rank, carrier):
        named = problem.parameters()
        options = {**OPTIONS, "weight_decay": decay}
        optimizer = OneBitLamb(named.items(), **options, **LIMITS, freeze_step=FREEZE, **carrier)
        assert optimizer.coefficients() == {}
        torch.set_num_threads(1 + rank % 2)  # the replicas do not depend on it
        history, coefficients, sent = [], [], [0]
        for step in range(1, STEPS + 1):
            assert optimizer.frozen == (step > FREEZE)
            problem.step(optimizer, named, rank, step)
            history.append(problem.values_of(named))
            coefficients.append(optimizer.coefficients())
            sent.append(optimizer.sent_bytes)
        torch.set_num_threads(1)
        assert optimizer.steps == STEPS
        del optimizer
        return history, coefficients, sent if folder else []


@pytest.mark.slow
@pytest.mark.parametrize(("world", "carrier", "decay"), [(2, "engine", 0.1), (4, "group", 0.1), (4, "engine", 0.0)])
def test_every_step_is_that_of_a_numpy_replay(world: int, carrier: str, decay: float, tmp_path: Path) -> None:
    ranks = run(_history, world, str(tmp_path) if carrier == "group" else "", decay)
    expected, wanted, factors = replayed(world, carrier, decay)
    for history, coefficients, sent in ranks:
        assert coefficients == ranks[0][1]
        for step in range(STEPS):
            for name, each in expected[step].items():
                assert np.array_equal(history[step][name], ranks[0][0][step][name])
                np.testing.assert_allclose(history[step][name], each, rtol=0, atol=1e-5, err_msg=f"{name}, {step + 1}")
                assert coefficients[step][name] == pytest.approx(wanted[step][name], rel=1e-4), (name, step + 1)
        if sent:  # a process group counts compressed bytes only
            assert {step for step in range(1, STEPS + 1) if sent[step] > sent[step - 1]} == set(
                range(FREEZE + 1, STEPS + 1)
            )
    # The factors differ between parameters and from step to step, and reach their limits.
    assert len({tuple(each) for each in factors.values()}) == len(factors)
    assert any(each[-1] in (LIMITS["factor_min"], LIMITS["factor_max"]) for each in factors.values())
    kept = 1 - OPTIONS["lr"] * decay * np.array([each["odd"] for each in ranks[0][1]])
    np.testing.assert_allclose(ranks[0][0][-1]["odd"][2], problem.start()["odd"][2] * kept.prod(), rtol=1e-5)


def test_a_norm_has_the_same_bits_in_every_order() -> None:
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(3_000_000, generator=generator) * 10.0 ** torch.randint(
        -3, 3, (3_000_000,), generator=generator
    )
    exact = math.sqrt(float(values.double().square().sum()))
    assert norm(values) == pytest.approx(exact, rel=1e-9)
    threads = torch.get_num_threads()
    for number in (1, 2, 3):
        torch.set_num_threads(number)
        order = torch.randperm(values.numel(), generator=generator)
        assert norm(values[order].reshape(1000, 3000)) == norm(values)
    torch.set_num_threads(threads)
    for scale in (1e-42, 1e-30, 1e30, 3e38):
        assert norm(torch.full((4, 4), scale)) == pytest.approx(4 * float(torch.tensor(scale)), rel=1e-9)
    assert norm(torch.zeros(3)) == 0.0
    assert norm(torch.tensor(-2.0)) == 2.0
    assert norm(torch.tensor([1.0, -math.inf])) == math.inf
    assert math.isnan(norm(torch.tensor([math.inf, math.nan])))
