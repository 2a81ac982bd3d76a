# SPDX-License-Identifier: Apache-2.0
"""Nothing is lost silently: what a codec drops is in a residual, at the worker and at the aggregator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hipress import _core
from tests.core.casync.engine_world import gradients, run_ranks, spec

STEPS = 20


@pytest.mark.parametrize("world_size", [2, 4])
@pytest.mark.parametrize("partitions", [1, 3, 8])
def test_what_goes_in_comes_out_or_stays_in_a_residual(world_size: int, partitions: int) -> None:
    """Summed over ranks: inputs + residuals before = N · output + residuals after (aggregators', weighted N)."""
    count = 10_000
    values = [gradients(world_size, count, seed=step) for step in range(STEPS)]

    def body(engine: _core.Engine) -> list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]:
        (tensor,) = engine.declare([spec("w", values[0][0], codec="onebit", partitions=partitions)])
        seen = []
        for step in range(STEPS):
            result = values[step][engine.rank].copy()
            engine.wait(engine.submit(tensor, result, result))
            seen.append((result, engine.state("w", "worker", "residual"), engine.state("w", "aggregator", "residual")))
        return seen

    by_rank = run_ranks(world_size, body)
    workers = np.zeros(count)
    aggregators = np.zeros(count)
    for step in range(STEPS):
        entering = np.sum(np.asarray(values[step], dtype=np.float64), axis=0) + workers + world_size * aggregators
        output = by_rank[0][step][0].astype(np.float64)
        workers = np.sum([by_rank[rank][step][1] for rank in range(world_size)], axis=0, dtype=np.float64)
        aggregators = np.sum([by_rank[rank][step][2] for rank in range(world_size)], axis=0, dtype=np.float64)
        leaving = world_size * output + workers + world_size * aggregators
        scale = np.max(np.abs(entering))
        assert np.max(np.abs(entering - leaving)) <= 1e-6 * scale * world_size, step


def test_error_feedback_makes_the_average_right_in_the_long_run() -> None:
    count, steps = 4096, 400
    values = gradients(2, count)

    def body(engine: _core.Engine) -> NDArray[Any]:
        (tensor,) = engine.declare([spec("w", values[0], codec="onebit")])
        total = np.zeros(count)
        for _ in range(steps):
            result = values[engine.rank].copy()
            engine.wait(engine.submit(tensor, result, result))
            total += result
        return total / steps

    expected = np.mean(values, axis=0)
    mean = run_ranks(2, body)[0]
    assert np.linalg.norm(mean - expected) / np.linalg.norm(expected) < 0.05


def test_without_error_feedback_no_residual_is_kept() -> None:
    def body(engine: _core.Engine) -> int:
        values = np.ones(5000, np.float32)
        (tensor,) = engine.declare([spec("w", values, codec="onebit(error_feedback=false)")])
        engine.wait(engine.submit(tensor, values, values))
        return int(engine.state("w", "worker", "residual").size)

    assert run_ranks(2, body) == [0, 0]


def test_a_rank_without_values_counts_as_zero_and_keeps_its_residual() -> None:
    count = 4096

    def body(engine: _core.Engine) -> tuple[NDArray[Any], bool]:
        values = np.full(count, 2.0, np.float32)
        values[: count // 2] = 1.0
        (tensor,) = engine.declare([spec("w", values, codec="onebit")])
        engine.wait(engine.submit(tensor, values.copy(), np.empty_like(values)))
        before = engine.state("w", "worker", "residual")
        output = np.empty_like(values)
        absent = engine.wait(engine.submit(tensor, values if engine.rank == 0 else None, output))
        assert not absent
        if engine.rank == 1:
            assert np.array_equal(before, engine.state("w", "worker", "residual"))
        return output, absent

    results = run_ranks(2, body)
    assert results[0][0].tobytes() == results[1][0].tobytes()
    assert 0.5 < results[0][0].mean() < 1.0


@pytest.mark.parametrize("codec", ["none", "onebit"])
def test_if_no_rank_has_values_the_output_is_left_alone(codec: str) -> None:
    def body(engine: _core.Engine) -> tuple[bool, bool]:
        output = np.full(5000, 7.0, np.float32)
        (tensor,) = engine.declare([spec("w", output, codec=codec, partitions=3)])
        absent = engine.wait(engine.submit(tensor, None, output))
        return absent, bool(np.all(output == 7.0))

    assert run_ranks(3, body) == [(True, True)] * 3
