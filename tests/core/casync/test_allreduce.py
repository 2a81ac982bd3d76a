# SPDX-License-Identifier: Apache-2.0
"""An all-reduce combines all ranks' values and gives the same bytes on all ranks, with every codec."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hipress import _core
from tests.cases import each
from tests.core.casync.engine_world import LOSSY, allreduce, gradients, identical, run_ranks, spec

COUNTS = [0, 1, 7, 1023, 1024, 1025, 4096 * 3 + 5]
CODECS = ["none", "fp16", *LOSSY]


def in_rank_order(contributions: list[NDArray[Any]], factor: float) -> NDArray[Any]:
    total = contributions[0].copy()
    for contribution in contributions[1:]:
        total = total + contribution
    return (total * np.float32(factor)).astype(contributions[0].dtype)


@each("world_size", [1, 2, 3, 4, 7])
def test_none_averages_exactly_in_rank_order(world_size: int) -> None:
    for count in COUNTS:
        values = gradients(world_size, count, seed=count)
        results = run_ranks(world_size, lambda engine, v=values: allreduce(engine, "w", v[engine.rank]))
        expected = in_rank_order(list(values), 1.0 / world_size)
        assert all(result.tobytes() == expected.tobytes() for result in results), count


@pytest.mark.parametrize("codec", CODECS)
@each("world_size", [1, 2, 3, 4])
@each("partitions", [0, 1, 5])
def test_ranks_end_with_identical_bytes(codec: str, world_size: int, partitions: int) -> None:
    counts = [*COUNTS, 100_000]
    values = {count: gradients(world_size, count, seed=count) for count in counts}

    def body(engine: _core.Engine) -> list[NDArray[Any]]:
        return [
            allreduce(engine, f"w{count}", values[count][engine.rank], codec=codec, partitions=partitions)
            for count in counts
        ]

    by_rank = run_ranks(world_size, body)
    for index, count in enumerate(counts):
        results = [results[index] for results in by_rank]
        assert identical(results), count
        if codec not in LOSSY and count:
            expected = np.mean(values[count], axis=0)
            assert np.max(np.abs(results[0] - expected)) <= (1e-6 if codec == "none" else 3e-3), count


@pytest.mark.parametrize("codec", CODECS)
def test_awkward_values(codec: str) -> None:
    count = 5000
    tiny, huge = np.float32(1e-42), np.float32(3e38)
    cases = {
        "zero": np.zeros(count, np.float32),
        "constant": np.full(count, 0.5, np.float32),
        "denormal": np.full(count, tiny, np.float32),
        "huge": np.where(np.arange(count) % 2, huge, -huge).astype(np.float32),
    }

    def body(engine: _core.Engine) -> dict[str, NDArray[Any]]:
        return {name: allreduce(engine, name, values, codec=codec) for name, values in cases.items()}

    by_rank = run_ranks(2, body)
    for name in cases:
        assert identical([results[name] for results in by_rank]), name
    assert np.array_equal(by_rank[0]["zero"], cases["zero"])
    sent = {"tbq": 0.05, "dgc": None, "graddrop": None}.get(codec, 0.5)  # tbq sends its threshold
    if sent is None:
        assert sorted(set(by_rank[0]["constant"].tolist())) == [0.0, 0.5]  # only some values are sent
    else:
        assert np.allclose(by_rank[0]["constant"], sent)


@pytest.mark.parametrize("codec", CODECS)
@each("poison", [np.nan, np.inf, -np.inf])
def test_non_finite_values_reach_every_rank(codec: str, poison: float) -> None:
    count = 20_000

    def states_of(engine: _core.Engine) -> dict[tuple[str, str], NDArray[Any]]:
        return {(role, state): engine.state("w", role, state) for _, role, state in engine.states()}

    def body(engine: _core.Engine) -> NDArray[Any]:
        values = np.linspace(-3, 3, count, dtype=np.float32)
        (tensor,) = engine.declare([spec("w", values, codec=codec, partitions=4)])
        clean = values.copy()
        engine.wait(engine.submit(tensor, clean, clean))
        before = states_of(engine)
        if engine.rank == 1:
            values[777] = poison
        engine.wait(engine.submit(tensor, values, values))
        for key, after in states_of(engine).items():
            assert np.all(np.isfinite(after)), key
            # On the rank with the value that is not finite, the states of its partition stay unchanged.
            if engine.rank == 1:
                assert np.array_equal(after[:1024], before[key][:1024]), key
        return values

    results = run_ranks(3, body)
    assert identical(results)
    assert not np.isfinite(results[0][777])
    assert np.all(np.isfinite(results[0][count // 2 :])), "other partitions are not touched"
    if codec in LOSSY:
        assert np.isnan(results[0][:1024]).all()


def test_fp16_overflow_becomes_infinite_not_wrong() -> None:
    results = run_ranks(2, lambda engine: allreduce(engine, "w", np.full(9000, 1e6, np.float32), codec="fp16"))
    assert np.all(np.isinf(results[0]))


@each("dtype", ["float64", "int32", "int64", "uint8", "int8", "int16"])
def test_other_element_types_sum(dtype: str) -> None:
    def body(engine: _core.Engine) -> NDArray[Any]:
        values = (np.arange(3000) % 20 + engine.rank).astype(dtype)
        return allreduce(engine, "w", values, op="sum")

    results = run_ranks(3, body)
    assert identical(results)
    assert np.array_equal(results[0], (np.arange(3000) % 20 * 3 + 3).astype(dtype))


def test_integers_average_truncates_toward_zero() -> None:
    results = run_ranks(2, lambda engine: allreduce(engine, "w", np.array([-3, 3, 4], np.int32) * engine.rank))
    assert results[0].tolist() == [-1, 1, 2]


def test_float64_travels_through_a_codec_in_float32() -> None:
    values = np.random.default_rng(0).standard_normal(9000)
    results = run_ranks(2, lambda engine: allreduce(engine, "w", values, codec="fp16"))
    assert identical(results)
    assert np.allclose(results[0], values, atol=3e-3)


@pytest.mark.parametrize("codec", ["none", "fp16"])
def test_prescale_and_postscale(codec: str) -> None:
    values = np.linspace(-1, 1, 6000, dtype=np.float32)
    results = run_ranks(
        2, lambda engine: allreduce(engine, "w", values, op="sum", prescale=0.5, postscale=3.0, codec=codec)
    )
    assert np.allclose(results[0], values * 3.0, atol=5e-3)


def test_a_tensor_is_synchronised_again_and_again() -> None:
    def body(engine: _core.Engine) -> list[float]:
        values = np.zeros(5000, np.float32)
        (tensor,) = engine.declare([spec("w", values)])
        seen = []
        for step in range(50):
            values[:] = step + engine.rank
            engine.wait(engine.submit(tensor, values, values))
            seen.append(float(values[-1]))
        return seen

    for seen in run_ranks(3, body):
        assert seen == [step + 1.0 for step in range(50)]


def test_output_may_be_another_array() -> None:
    def body(engine: _core.Engine) -> bool:
        values = np.full(70_000, float(engine.rank), np.float32)
        output = np.empty_like(values)
        (tensor,) = engine.declare([spec("w", values)])
        engine.wait(engine.submit(tensor, values, output))
        return bool(np.all(values == engine.rank) and np.all(output == 0.5))

    assert run_ranks(2, body) == [True, True]


@settings(max_examples=25, deadline=None)
@given(
    world_size=st.integers(1, 5),
    count=st.integers(0, 20_000),
    partitions=st.integers(0, 9),
    codec=st.sampled_from(CODECS),
    seed=st.integers(0, 1000),
)
def test_any_shape_of_world(world_size: int, count: int, partitions: int, codec: str, seed: int) -> None:
    values = gradients(world_size, count, seed)
    results = run_ranks(
        world_size,
        lambda engine: allreduce(engine, "w", values[engine.rank], codec=codec, partitions=partitions),
    )
    assert identical(results)
    if codec == "none":
        assert results[0].tobytes() == in_rank_order(list(values), 1.0 / world_size).tobytes()


@pytest.mark.parametrize("topology", ["ps", "ring", "allgather", "hierarchical"])
@each("option", ["pipelining", "priorities"])
def test_without_overlap_and_order_the_bits_are_the_same(option: str, topology: str) -> None:
    """Overlap and priorities affect the speed only."""
    count, tensors = 3000, 12
    values = [gradients(3, count, seed=index) for index in range(tensors)]

    def body(engine: _core.Engine) -> list[NDArray[Any]]:
        handles = engine.declare(
            [
                spec(f"w{index}", values[index][0], codec="onebit", topology=topology, partitions=3, priority=index)
                for index in range(tensors)
            ]
        )
        results = []
        for _ in range(3):
            outputs = [values[index][engine.rank].copy() for index in range(tensors)]
            waiting = [engine.submit(handle, out, out) for handle, out in zip(handles, outputs, strict=True)]
            for operation in reversed(waiting):
                engine.wait(operation)
            results += outputs
        return results

    usual = run_ranks(3, body)[0]
    without = run_ranks(3, body, options={option: False})[0]
    assert all(np.array_equal(first, second) for first, second in zip(usual, without, strict=True))
