# SPDX-License-Identifier: Apache-2.0
"""Codecs whose encoded values ranks add, in the engine: every step and every rank, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hipress import _core
from hipress.compll import Interpreter, compile_builtin
from tests.core.casync.engine_world import identical, run_ranks, spec
from tests.core.casync.summed.reference import Reference

Floats = NDArray[np.float32]
STEPS = 4
CODECS = ["int8_shared", "thc"]
LARGEST = float(np.finfo(np.float32).max)


def ranks_of(
    steps: list[list[Any]],
    codec: str = "int8_shared",
    *,
    engine_options: dict[str, Any] | None = None,
    numbers: list[int] | None = None,
    **options: Any,
) -> list[tuple[list[Any], dict[str, Floats]]]:
    """By rank: the results of all steps, and the states after the last one. None stands for an absent gradient.

    `numbers` gets the tensor's number.
    """
    like = next(array for array in steps[0] if array is not None)

    def body(engine: _core.Engine) -> tuple[list[Any], dict[str, Floats]]:
        (tensor,) = engine.declare([spec("w", like, codec=codec, **options)])
        if numbers is not None:
            numbers.append(tensor)
        results = []
        for values in steps:
            own = values[engine.rank]
            result = np.full_like(like, -7)
            engine.wait(engine.submit(tensor, own, result))
            results.append(result)
        states = {state: engine.state("w", role, state) for name, role, state in engine.states() if name == "w"}
        return results, states

    return run_ranks(len(steps[0]), body, options=engine_options)


def random_steps(world: int, count: int, seed: int = 0) -> list[list[Floats]]:
    generator = np.random.default_rng(seed)
    common = generator.standard_normal(count)
    return [
        [(common + generator.standard_normal(count)).astype(np.float32) for _ in range(world)] for _ in range(STEPS)
    ]


def compare(steps: list[list[Any]], seed: int = 0, codec: str = "int8_shared", **params: Any) -> None:
    """The engine's results and residuals are those of the definition."""
    text = ", ".join(f"{name}={str(value).lower()}" for name, value in params.items())
    numbers: list[int] = []
    by_rank = ranks_of(steps, f"{codec}({text})", engine_options={"seed": seed}, numbers=numbers)
    count = next(array.size for array in steps[0] if array is not None)
    reference = Reference(
        Interpreter(compile_builtin(codec), **params), count, len(steps[0]), seed=seed, tensor=numbers[0]
    )
    for step, values in enumerate(steps):
        expected = reference.step(values)
        for results, _ in by_rank:
            np.testing.assert_array_equal(results[step], expected, err_msg=f"step {step}")
    for (_, states), kept in zip(by_rank, reference.states, strict=True):
        for name, state in kept.items():
            np.testing.assert_array_equal(states[name], state)


@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize("count", [30, 257, 5000])
@pytest.mark.parametrize("block", [16, 256, 16777216])
def test_each_step_is_that_of_the_definition(world: int, count: int, block: int) -> None:
    compare(random_steps(world, count), block=block, levels=127 // world)


@pytest.mark.parametrize("options", [{"error_feedback": False}, {"levels": 1}, {"levels": 63}])
def test_options(options: dict[str, Any]) -> None:
    compare(random_steps(2, 3000), **options)


@pytest.mark.parametrize("count", [30, 1023, 1024, 1025, 5000])
def test_each_step_of_a_transform_is_that_of_the_definition(count: int) -> None:
    compare(random_steps(3, count), codec="thc", levels=42, reach=3.0)


@pytest.mark.parametrize("codec", CODECS)
def test_random_rounding_uses_the_numbers_of_each_rank(codec: str) -> None:
    compare(random_steps(3, 3000), seed=11, codec=codec, stochastic=True)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("values", ["zeros", "constant", "denormal", "huge", "one rank of zeros", "zero blocks"])
def test_awkward_values(values: str, codec: str) -> None:
    steps = random_steps(2, 1100)
    for arrays in steps:
        for rank, array in enumerate(arrays):
            if values == "zeros":
                array[:] = 0
            elif values == "constant":
                array[:] = 3
            elif values == "denormal":
                array *= np.float32(1e-41)
            elif values == "huge":
                array[:] = np.clip(array.astype(np.float64) * 1e38, -LARGEST / 4, LARGEST / 4)
            elif values == "zero blocks":
                array[256:768] = 0
            elif rank == 1:
                array[:] = 0
    compare(steps, codec=codec)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_not_a_number_reaches_every_rank_and_changes_no_state(value: float) -> None:
    good = random_steps(3, 900)
    bad = [array.copy() for array in good[0]]
    bad[1][500] = value
    with_bad, without = ranks_of([*good[:2], bad]), ranks_of(good[:2])
    for (results, states), (_, kept) in zip(with_bad, without, strict=True):
        assert np.isnan(results[2]).all()
        assert identical([states["residual"], kept["residual"]])


def test_a_sum_that_overflows_with_its_residual_reaches_every_rank() -> None:
    """Statistics that are not finite, though no gradient is."""
    steps = random_steps(2, 300)
    for arrays in steps:
        arrays[1][7] = LARGEST
    by_rank = ranks_of(steps, "int8_shared(levels=1, block=16)")
    assert identical([np.array(results) for results, _ in by_rank])


def test_ranks_without_a_gradient_get_the_result_and_keep_their_residual() -> None:
    steps: list[list[Any]] = [list(arrays) for arrays in random_steps(3, 700)]
    steps[1][2] = None
    steps[2][0] = steps[2][1] = None
    compare(steps)


def test_where_no_rank_has_a_gradient_nothing_is_written() -> None:
    steps: list[list[Any]] = [list(arrays) for arrays in random_steps(2, 700)]
    steps[1] = [None, None]
    by_rank = ranks_of(steps)
    for results, _ in by_rank:
        assert (results[1] == -7).all()
    assert identical([by_rank[0][0][3], by_rank[1][0][3]])


@pytest.mark.parametrize("codec", CODECS)
def test_what_goes_in_comes_out_or_stays_in_the_residuals(codec: str) -> None:
    world, steps = 3, random_steps(3, 4000)
    residuals = np.zeros(4000)
    for number in range(1, STEPS + 1):
        by_rank = ranks_of(steps[:number], codec)
        entering = np.sum(steps[number - 1], axis=0, dtype=np.float64) + residuals
        residuals = np.sum([states["residual"] for _, states in by_rank], axis=0, dtype=np.float64)
        leaving = world * by_rank[0][0][-1].astype(np.float64) + residuals
        assert np.abs(entering - leaving).max() <= 1e-6 * world * np.abs(entering).max()
        assert np.abs(residuals).max() > 0.01  # something is left over


@pytest.mark.parametrize("topology", ["ps", "ring", "butterfly", "allgather", "hierarchical"])
@pytest.mark.parametrize(("partitions", "codec"), [(0, "int8_shared"), (3, "int8_shared"), (3, "thc")])
def test_every_topology_and_every_partitioning_gives_the_same_bits(topology: str, partitions: int, codec: str) -> None:
    """Integer sums have no order, so that no hop rounds anything."""
    steps = random_steps(4, 6000)
    expected = ranks_of(steps, codec)
    by_rank = ranks_of(steps, codec, topology=topology, partitions=partitions, engine_options={"hosts": [0, 0, 1, 1]})
    assert identical([np.array(results) for results, _ in [*expected, *by_rank]])


def test_the_same_bits_on_every_instruction_set(isa: str) -> None:
    steps = random_steps(2, 5000)
    by_rank = ranks_of(steps)
    before = _core.isa_level()
    _core.set_isa_level("generic")
    generic = ranks_of(steps)
    _core.set_isa_level(before)
    for (results, states), (expected, kept) in zip(by_rank, generic, strict=True):
        assert identical([np.array(results), np.array(expected)]), isa
        assert identical([states["residual"], kept["residual"]]), isa


@pytest.mark.parametrize("op", ["sum", "average"])
def test_factors_and_element_types(op: str) -> None:
    """Scaled by powers of two, the bits are those of the plain mean; other types are rounded at the end only."""
    steps = random_steps(2, 3000)
    plain = ranks_of(steps)
    scaled = ranks_of(steps, op=op, prescale=0.5, postscale=4.0)
    factor = np.float32(4.0 * 0.5 * (2 if op == "sum" else 1))
    for (results, _), (expected, _) in zip(scaled, plain, strict=True):
        assert identical([np.array(results), factor * np.array(expected)])
    for type_ in (np.float16, np.float64):
        typed = [[array.astype(np.float16).astype(type_) for array in arrays] for arrays in steps]
        widened = [[array.astype(np.float32) for array in arrays] for arrays in typed]
        for (results, _), (expected, _) in zip(ranks_of(typed), ranks_of(widened), strict=True):
            assert identical([np.array(results), np.array(expected).astype(type_)])


def test_many_tensors_at_once_with_and_without_pipelining() -> None:
    counts = [5000, 300, 90000, 17]

    def body(engine: _core.Engine) -> list[Floats]:
        values = [random_steps(2, count)[0][engine.rank] for count in counts]
        specs = [spec(f"w{i}", each, codec="int8_shared") for i, each in enumerate(values)]
        tensors = engine.agree("w", specs)
        for _ in range(3):
            operations = [engine.submit(*each) for each in zip(tensors, values, values, strict=True)]
            for operation in operations:
                engine.wait(operation)
        return values

    results = [run_ranks(2, body, options={"pipelining": pipelining}) for pipelining in (True, False)]
    for arrays in zip(*results[0], *results[1], strict=True):
        assert identical(arrays)


def test_bytes_on_the_wire() -> None:
    """One byte for each element and 4 for each block, once to the aggregator and once back."""
    count, world = 1 << 18, 2

    def body(engine: _core.Engine) -> int:
        values = np.ones(count, np.float32)
        (tensor,) = engine.declare([spec("w", values, codec="int8_shared")])
        before = engine.counters()["bytes_sent"]
        engine.wait(engine.submit(tensor, values, values))
        return engine.counters()["bytes_sent"] - before

    sent = run_ranks(world, body, read_neighbours=False)
    payload = count + 1 + 4 * count // 256
    assert 2 * payload <= sum(sent) <= 2 * payload + 2000  # headers


@pytest.mark.parametrize("count", [0, 1, 2, 5, 6])
def test_few_elements(count: int) -> None:
    """What would not shrink is sent as it is, exactly."""
    steps = random_steps(2, count)
    by_rank = ranks_of(steps)
    for step, arrays in enumerate(steps):
        results = [results[step] for results, _ in by_rank]
        assert identical(results)
        np.testing.assert_allclose(results[0], np.mean(arrays, axis=0), rtol=0.1, atol=0.2)
