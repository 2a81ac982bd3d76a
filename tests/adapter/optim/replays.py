# SPDX-License-Identifier: Apache-2.0
"""A noisy quadratic problem, and replays of the optimizers of all ranks on it, in one process with NumPy.

The definitions are the definitions of tests/torch/optim; this file needs no PyTorch.
"""

from __future__ import annotations

import math
import zlib
from typing import Any

import numpy as np

from tests.torch.optim.averaging import Floats, TwoSided, owner_by_name

Values = dict[str, Floats]
#: A tensor of several partitions, a tensor with awkward sizes, a vector, and a tensor too small to be compressed.
SHAPES = {"large": (200, 240), "odd": (7, 193), "vector": (1100,), "small": (7,)}
_SMALL = ("small",)
STEPS, FREEZE = 10, 4
ADAM: dict[str, Any] = {"lr": 0.01, "beta_1": 0.9, "beta_2": 0.99, "epsilon": 1e-8, "weight_decay": 0.1}
SGD: dict[str, Any] = {"lr": 0.02, "momentum": 0.9, "weight_decay": 0.1, "ratio": 0.02, "clip_norm": 400.0}


def start() -> Values:
    generator = np.random.default_rng(3)
    return {name: generator.standard_normal(shape).astype(np.float32) for name, shape in SHAPES.items()}


def gradient(name: str, value: Floats, rank: int, step: int) -> Floats:
    """The gradient of rank `rank` in step `step`; row 2 of "odd" is always zero."""
    generator = np.random.default_rng([zlib.crc32(name.encode()), rank, step])
    noise = generator.standard_normal(value.shape).astype(np.float32)
    result = np.asarray(np.float32(0.5) * value + noise, np.float32)
    if name == "odd":
        result[2] = 0
    return result


def onebit_adam(world: int) -> list[Values]:
    """The parameters after each step of 1-bit Adam (Tang et al., 2021, algorithm 1) with AdamW's bias corrections."""
    x, f = start(), np.float32
    beta_1, beta_2, lr = ADAM["beta_1"], ADAM["beta_2"], ADAM["lr"]
    m = {name: np.zeros_like(each) for name, each in x.items()}
    v = {name: np.zeros_like(each) for name, each in x.items()}
    averages = {
        name: TwoSided(x[name].size, world, owner_by_name(f"allreduce.optim.onebitadam.compressed.{name}", world))
        for name in SHAPES
        if name not in _SMALL
    }
    history = []
    for step in range(1, STEPS + 1):
        for name in x:
            gradients = [gradient(name, x[name], rank, step) for rank in range(world)]
            if step <= FREEZE:
                g = sum(gradients) / f(world)
                m[name] = f(beta_1) * m[name] + f(1 - beta_1) * g
                v[name] = f(beta_2) * v[name] + f(1 - beta_2) * g * g
            else:
                moved = [f(beta_1) * m[name] + f(1 - beta_1) * g for g in gradients]
                average: Any = (
                    averages[name].average([each.ravel() for each in moved]).reshape(x[name].shape)
                    if name in averages
                    else sum(moved) / f(world)
                )
                m[name] = np.where(v[name] == 0, f(0), average)
            m_hat = m[name] / f(1 - beta_1**step)
            v_hat = v[name] / f(1 - beta_2 ** min(step, FREEZE))
            x[name] = x[name] * f(1 - lr * ADAM["weight_decay"])
            x[name] = np.asarray(x[name] - f(lr) * m_hat / (np.sqrt(v_hat) + f(ADAM["epsilon"])), np.float32)
        history.append(dict(x))
    return history


def dgc_sgd(world: int, ratios: list[float]) -> list[Values]:
    """The parameters after each step of DGC with Nesterov's momentum (Lin et al., 2018, algorithm 1). `ratios`: the
    ratio of each step."""
    x, f = start(), np.float32
    m, lr, decay = f(SGD["momentum"]), f(SGD["lr"]), f(SGD["weight_decay"])
    limit = SGD["clip_norm"] / math.sqrt(world)
    u = [{name: np.zeros_like(each) for name, each in x.items()} for _ in range(world)]
    v = [{name: np.zeros_like(each) for name, each in x.items()} for _ in range(world)]
    w = {name: np.zeros_like(each) for name, each in x.items()}
    exact = {name: np.zeros_like(each) for name, each in x.items()}
    history = []
    for step, ratio in enumerate(ratios, 1):
        g = [{name: gradient(name, each, rank, step) for name, each in x.items()} for rank in range(world)]
        for own in g:
            norm = math.sqrt(sum(float(np.square(each, dtype=np.float64).sum()) for each in own.values()))
            for name in own:
                own[name] = own[name] * f(min(1.0, limit / norm))
        for name in x:
            if name in ("large", "odd"):
                total = np.zeros(x[name].size, np.float32)
                for rank in range(world):
                    u[rank][name] = m * (u[rank][name] + g[rank][name])
                    v[rank][name] = v[rank][name] + u[rank][name] + g[rank][name]
                    flat = v[rank][name].ravel()
                    chosen = np.argsort(-np.abs(flat), kind="stable")[: math.ceil(ratio * flat.size)]
                    total[chosen] += flat[chosen]
                    flat[chosen] = 0
                    u[rank][name].ravel()[chosen] = 0
                update = (total / f(world)).reshape(x[name].shape)
            else:
                average = sum(each[name] for each in g) / f(world)
                exact[name] = m * exact[name] + average
                update = average + m * exact[name]
            w[name] = m * w[name] + decay * x[name]
            x[name] = np.asarray(x[name] - lr * (update + decay * x[name] + m * w[name]), np.float32)
        history.append(dict(x))
    return history


def check(ranks: list[list[Values]], expected: list[Values]) -> None:
    """Checks that all ranks have the same bits, and that their values equal the replay's to 1e-5."""
    assert all(len(history) == len(expected) for history in ranks)
    for step, wanted in enumerate(expected):
        for name, each in wanted.items():
            for history in ranks:
                assert np.array_equal(history[step][name], ranks[0][step][name])
            np.testing.assert_allclose(ranks[0][step][name], each, rtol=0, atol=1e-5, err_msg=f"{name}, step {step}")
