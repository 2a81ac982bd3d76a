# SPDX-License-Identifier: Apache-2.0
"""No value is lost: a codec keeps in a residual what it drops, on the worker and on the aggregator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hipress import _core
from tests.core.casync.engine_world import LOSSY, gradients, identical, run_ranks, spec

STEPS = 20


@pytest.mark.parametrize("codec", ["onebit", "tbq(threshold=0.5)", "dgc(ratio=0.1)", "graddrop(ratio=0.1)", "int4"])
@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
@pytest.mark.parametrize("partitions", [1, 8])
def test_what_goes_in_comes_out_or_stays_in_a_residual(codec: str, world_size: int, partitions: int) -> None:
    """The sums over ranks satisfy: inputs + residuals before = N · output + residuals after. An aggregator's residual
    counts N times.

    With dgc, the input is the workers' momentum·velocity + gradient; aggregators have no momentum.
    """
    count = 10_000
    momentum = np.float32(0.9) if codec.startswith("dgc") else np.float32(0)
    values = [gradients(world_size, count, seed=step) for step in range(STEPS)]

    def kept(engine: _core.Engine, role: str, state: str) -> NDArray[Any]:
        found = engine.state("w", role, state) if ("w", role, state) in engine.states() else np.empty(0)
        return found if found.size else np.zeros(count, np.float32)

    def body(engine: _core.Engine) -> list[tuple[NDArray[Any], ...]]:
        (tensor,) = engine.declare([spec("w", values[0][0], codec=codec, partitions=partitions)])
        seen = []
        for step in range(STEPS):
            result = values[step][engine.rank].copy()
            engine.wait(engine.submit(tensor, result, result))
            residuals = kept(engine, "worker", "residual"), kept(engine, "aggregator", "residual")
            seen.append((result, *residuals, kept(engine, "worker", "velocity")))
        return seen

    def summed(arrays: list[NDArray[Any]]) -> NDArray[Any]:
        total: NDArray[Any] = np.sum(arrays, axis=0, dtype=np.float64)
        return total

    by_rank = run_ranks(world_size, body)
    workers = aggregators = velocity = np.zeros(count)
    for step in range(STEPS):
        outputs, worker, aggregator, speed = zip(*(seen[step] for seen in by_rank), strict=True)
        assert identical(outputs)
        entering = summed(values[step]) + momentum * velocity + workers + world_size * aggregators
        workers, aggregators, velocity = summed(worker), summed(aggregator), summed(speed)
        leaving = world_size * outputs[0].astype(np.float64) + workers + world_size * aggregators
        scale = np.max(np.abs(entering))
        assert np.max(np.abs(entering - leaving)) <= 1e-6 * scale * world_size, step


@pytest.mark.parametrize("codec", ["onebit", "tbq(threshold=4)", "graddrop(ratio=0.1)", "terngrad(bitwidth=4)"])
def test_the_average_is_right_in_the_long_run(codec: str) -> None:
    """The mean is right because of error feedback, or because the codec rounds without bias."""
    count, steps = 4096, 400
    values = gradients(2, count)

    def body(engine: _core.Engine) -> NDArray[Any]:
        (tensor,) = engine.declare([spec("w", values[0], codec=codec)])
        total = np.zeros(count)
        for _ in range(steps):
            result = values[engine.rank].copy()
            engine.wait(engine.submit(tensor, result, result))
            total += result
        return total / steps

    expected = np.mean(values, axis=0)
    mean = run_ranks(2, body)[0]
    assert np.linalg.norm(mean - expected) / np.linalg.norm(expected) < 0.05


def rounded_at_random(values: list[NDArray[Any]], topology: str, steps: int) -> NDArray[Any]:
    """The results in each of `steps` steps, one row per step."""

    def body(engine: _core.Engine) -> NDArray[Any]:
        options = {"codec": "terngrad(bitwidth=1)", "topology": topology}
        (tensor,) = engine.declare([spec("w", values[0], **options)])
        results = np.empty((steps, values[0].size), np.float64)
        for step in range(steps):
            result = values[engine.rank].copy()
            engine.wait(engine.submit(tensor, result, result))
            results[step] = result
        return results

    return run_ranks(len(values), body)[0]


@pytest.mark.parametrize("topology", ["ps", "ring", "allgather", "hierarchical"])
@pytest.mark.parametrize("world_size", [2, 3])
def test_what_is_rounded_twice_is_right_on_average(topology: str, world_size: int) -> None:
    """If a sum were rounded with the random numbers of its parts, the mean would be wrong, because both would be
    rounded up together."""
    count, steps = 4096, 400
    values = list(gradients(world_size, count))
    results = rounded_at_random(values, topology, steps)
    errors = results.mean(axis=0) - np.mean(values, axis=0, dtype=np.float64)
    in_standard_errors = errors / np.maximum(results.std(axis=0, ddof=1) / np.sqrt(steps), 1e-6)
    assert np.mean(in_standard_errors**2) < 1 + 6 * np.sqrt(2 / count)


def test_ranks_round_independently() -> None:
    """The ranks' rounding errors cancel: the variance of N ranks' average is an Nth of one rank's variance."""
    (values,) = gradients(1, 4096)
    alone = rounded_at_random([values] * 2, "allgather", 50).var(axis=0).sum()
    four = rounded_at_random([values] * 8, "allgather", 50).var(axis=0).sum()
    assert 0.9 < alone / four / 4 < 1.1


@pytest.mark.parametrize("codec", [codec for codec in LOSSY if codec not in ("terngrad", "bf16")])
def test_without_error_feedback_nothing_is_kept(codec: str) -> None:
    def body(engine: _core.Engine) -> list[tuple[str, str, str]]:
        values = np.ones(5000, np.float32)
        (tensor,) = engine.declare([spec("w", values, codec=f"{codec}(error_feedback=false)")])
        engine.wait(engine.submit(tensor, values, values))
        assert engine.state("w", "worker", "residual").size == 0
        return engine.states()

    assert run_ranks(2, body) == [[], []]


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


@pytest.mark.parametrize("codec", ["none", *LOSSY])
def test_if_no_rank_has_values_the_output_is_left_alone(codec: str) -> None:
    def body(engine: _core.Engine) -> tuple[bool, bool]:
        output = np.full(5000, 7.0, np.float32)
        (tensor,) = engine.declare([spec("w", output, codec=codec, partitions=3)])
        absent = engine.wait(engine.submit(tensor, None, output))
        return absent, bool(np.all(output == 7.0))

    assert run_ranks(3, body) == [(True, True)] * 3
