# SPDX-License-Identifier: Apache-2.0
"""PowerSGD in the engine equals its definition in NumPy in every step on every rank."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hipress import _core
from hipress.errors import InvalidArgument, Unsupported
from tests.core.casync.engine_world import identical, run_ranks, spec
from tests.core.casync.powersgd_reference import Reference

Floats = NDArray[np.float32]
STEPS = 4
#: An option with which every matrix travels as factors, even if factors save almost nothing.
ALWAYS = "min_ratio=0.001"


def ranks_of(
    steps: list[list[Floats]], codec: str, *, hosts: list[int] | None = None, **options: Any
) -> list[tuple[list[Floats], dict[str, Floats]]]:
    """By rank: the results of all steps, and the states after the last step."""

    def body(engine: _core.Engine) -> tuple[list[Floats], dict[str, Floats]]:
        (tensor,) = engine.declare([spec("w", steps[0][0], codec=codec, **options)])
        results = []
        for values in steps:
            result = values[engine.rank].copy()
            engine.wait(engine.submit(tensor, result, result))
            results.append(result)
        states = {state: engine.state("w", role, state) for name, role, state in engine.states() if name == "w"}
        return results, states

    return run_ranks(len(steps[0]), body, options={"hosts": hosts} if hosts else None)


def random_steps(world: int, shape: tuple[int, ...], seed: int = 0) -> list[list[Floats]]:
    generator = np.random.default_rng(seed)
    common = generator.standard_normal(shape)
    return [
        [(common + generator.standard_normal(shape)).astype(np.float32) for _ in range(world)] for _ in range(STEPS)
    ]


def compare(steps: list[list[Floats]], rank: int, tolerance: float = 1e-6, **options: bool) -> None:
    shape = steps[0][0].shape
    world = len(steps[0])
    words = "".join(f", {name}={str(value).lower()}" for name, value in options.items())
    by_rank = ranks_of(steps, f"powersgd(rank={rank}, {ALWAYS}{words})")
    rows = shape[0] if len(shape) > 1 else 1
    reference = Reference((rows, steps[0][0].size // rows), world, rank=rank, **options)
    for step, values in enumerate(steps):
        results = [results[step] for results, _ in by_rank]
        assert identical(results), step
        expected = reference.step(values).reshape(shape)
        finite = [np.abs(each[np.isfinite(each)]).max(initial=0) for each in (*values, *reference.residuals)]
        np.testing.assert_allclose(results[0], expected, rtol=0, atol=tolerance * max(finite), err_msg=f"step {step}")
    for (_, states), residual in zip(by_rank, reference.residuals, strict=True):
        if options.get("error_feedback", True):
            bound = tolerance * max(np.abs(residual).max(), *(np.abs(each).max() for each in steps[-1]))
            np.testing.assert_allclose(states["residual"], residual.ravel(), rtol=0, atol=STEPS * bound)


@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize("rank", [1, 2, 4])
@pytest.mark.parametrize("shape", [(30, 50), (7, 2100), (65, 3, 3, 3), (300, 1)])
def test_each_step_is_that_of_the_definition(world: int, rank: int, shape: tuple[int, ...]) -> None:
    compare(random_steps(world, shape), rank)


@pytest.mark.parametrize("options", [{"error_feedback": False}, {"warm_start": False}])
def test_without_memory(options: dict[str, bool]) -> None:
    compare(random_steps(2, (30, 50)), 2, **options)


@pytest.mark.parametrize(
    "values", ["zeros", "constant", "denormal", "huge", "one row", "one rank of zeros", "zeros first"]
)
def test_awkward_values(values: str) -> None:
    """Zero gradients give zeros, and not NaN as torch's hook without an epsilon."""
    steps = random_steps(2, (20, 30))
    for step, arrays in enumerate(steps):
        for rank, array in enumerate(arrays):
            if values == "zeros" or (values == "zeros first" and step < 2):
                array[:] = 0
            elif values == "constant":
                array[:] = 3
            elif values == "denormal":
                array *= np.float32(1e-41)
            elif values == "huge":
                array *= np.float32(1e36)
            elif values == "one row":
                array[1:] = 0
            elif rank == 1:
                array[:] = 0
    # The product of denormal values is rounded to the spacing of denormals.
    compare(steps, 2, tolerance=1e-2 if values == "denormal" else 1e-6)


@pytest.mark.parametrize("shape", [(0,), (1,), (7,), (1, 1), (1, 7), (0, 5), (5, 0)])
def test_few_elements(shape: tuple[int, ...]) -> None:
    """Small tensors travel as factors or, where factors save nothing, raw; the mean is exact in both cases."""
    steps = random_steps(2, shape)
    for codec in (f"powersgd(rank=4, {ALWAYS})", "powersgd"):
        by_rank = ranks_of(steps, codec)
        for step, arrays in enumerate(steps):
            results = [results[step] for results, _ in by_rank]
            assert identical(results)
            np.testing.assert_allclose(results[0], np.mean(arrays, axis=0), rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("shape", [(6, 40), (40, 6)])
def test_of_full_rank_the_mean_is_exact(shape: tuple[int, int]) -> None:
    steps = random_steps(3, shape)
    by_rank = ranks_of(steps, f"powersgd(rank=32, {ALWAYS})")
    for step, arrays in enumerate(steps):
        mean = np.mean(arrays, axis=0, dtype=np.float64)
        np.testing.assert_allclose(by_rank[0][0][step], mean, rtol=0, atol=4e-6 * np.abs(mean).max())


def test_what_goes_in_comes_out_or_stays_in_the_residuals() -> None:
    world, shape = 3, (60, 90)
    steps = random_steps(world, shape)
    residuals = np.zeros(shape)
    for number in range(1, STEPS + 1):
        by_rank = ranks_of(steps[:number], "powersgd(rank=2)")
        entering = np.sum(steps[number - 1], axis=0, dtype=np.float64) + residuals
        residuals = np.sum([states["residual"] for _, states in by_rank], axis=0, dtype=np.float64).reshape(shape)
        leaving = world * by_rank[0][0][-1].astype(np.float64) + residuals
        assert np.abs(entering - leaving).max() <= 1e-6 * world * np.abs(entering).max()
        assert np.abs(residuals).max() > 0.1  # the ranks do have residuals


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_not_a_number_reaches_every_rank_and_changes_no_state(value: float) -> None:
    world, shape = 3, (40, 50)
    good = random_steps(world, shape)
    bad = [array.copy() for array in good[0]]
    bad[1][3, 4] = value
    with_bad = ranks_of([*good[:2], bad, good[2]], "powersgd(rank=2)")
    for results, _ in with_bad:
        assert np.isnan(results[2]).all()
    without = ranks_of(good[:3], "powersgd(rank=2)")
    for (results, states), (expected, kept) in zip(with_bad, without, strict=True):
        assert identical([results[3], expected[2]])
        assert identical([states["residual"], kept["residual"]])
        assert identical([states["factor"], kept["factor"]])


def test_the_same_bits_on_every_instruction_set(isa: str) -> None:
    """Ranks on different processors compute the same bits from the same sums."""
    steps = random_steps(2, (37, 1500))
    by_rank = ranks_of(steps, "powersgd(rank=3)")
    before = _core.isa_level()
    _core.set_isa_level("generic")
    generic = ranks_of(steps, "powersgd(rank=3)")
    _core.set_isa_level(before)
    for (results, states), (expected, kept) in zip(by_rank, generic, strict=True):
        assert identical([np.array(results), np.array(expected)]), isa
        assert identical([states["residual"], kept["residual"]]), isa


@pytest.mark.parametrize("op", ["sum", "average"])
def test_factors_and_element_types(op: str) -> None:
    """With factors that are powers of two, the bits equal the scaled mean; float16 is rounded at the end only."""
    steps = random_steps(2, (40, 60))
    plain = ranks_of(steps, "powersgd(rank=2)")
    scaled = ranks_of(steps, "powersgd(rank=2)", op=op, prescale=0.5, postscale=4.0)
    factor = np.float32(4.0 * 0.5 * (2 if op == "sum" else 1))
    for (results, _), (expected, _) in zip(scaled, plain, strict=True):
        assert identical([np.array(results), factor * np.array(expected)])

    halves = [[array.astype(np.float16) for array in arrays] for arrays in steps]
    widened = [[array.astype(np.float32) for array in arrays] for arrays in halves]
    for (results, _), (expected, _) in zip(
        ranks_of(halves, "powersgd(rank=2)"),  # type: ignore[arg-type]
        ranks_of(widened, "powersgd(rank=2)"),
        strict=True,
    ):
        assert identical([np.array(results), np.array(expected).astype(np.float16)])


@pytest.mark.parametrize("topology", ["ps", "ring", "butterfly", "allgather", "hierarchical"])
def test_every_topology_carries_the_factors(topology: str) -> None:
    steps = random_steps(4, (64, 96))
    expected = ranks_of(steps, "powersgd(rank=2)")
    by_rank = ranks_of(steps, "powersgd(rank=2)", topology=topology, hosts=[0, 0, 1, 1])
    assert identical([np.array(results) for results, _ in by_rank])
    # Another order of additions rounds in another way.
    np.testing.assert_allclose(by_rank[0][0], expected[0][0], rtol=0, atol=2e-5)


def test_without_pipelining() -> None:
    """Tensors begin one after the other, and the factors of a tensor that has begun do not wait in the queue."""
    shapes = [(64, 700), (30, 20), (500, 90)]

    def body(engine: _core.Engine) -> list[Floats]:
        values = [random_steps(2, shape)[0][engine.rank] for shape in shapes]
        specs = [spec(f"w{i}", each, codec="powersgd") for i, each in enumerate(values)]
        tensors = engine.agree("w", specs)
        for _ in range(3):
            operations = [engine.submit(*each) for each in zip(tensors, values, values, strict=True)]
            for operation in operations:
                engine.wait(operation)
        return values

    for first, second in zip(*run_ranks(2, body, options={"pipelining": False}), strict=True):
        assert identical([first, second])


def test_small_matrices_and_vectors_travel_as_they_are() -> None:
    def body(engine: _core.Engine) -> list[int]:
        sent = []
        for name, shape, options in [
            ("large", (256, 256), {}),
            ("below min_compress_bytes", (256, 256), {"min_compress_bytes": 256 * 256 * 4 + 1}),
            ("vector", (65536,), {}),
            ("of no use", (2, 1000), {}),
        ]:
            values = np.ones(shape, np.float32)
            (tensor,) = engine.declare([spec(name, values, codec="powersgd(rank=1)", **options)])
            before = engine.counters()["bytes_sent"]
            engine.wait(engine.submit(tensor, values, values))
            sent.append(engine.counters()["bytes_sent"] - before)
        return sent

    for large, small, vector, useless in run_ranks(2, body, read_neighbours=False):
        assert large <= 2 * 512 * 4  # the bound leaves room for headers
        assert small >= 256 * 256 * 4 // 2
        assert vector >= 65536 * 4 // 2
        assert useless >= 2000 * 4


def test_what_it_cannot_do_is_refused() -> None:
    def body(engine: _core.Engine) -> None:
        values = np.ones((64, 64), np.float32)
        with pytest.raises(InvalidArgument, match="rank must be from 1 to 32"):
            engine.declare([spec("w", values, codec="powersgd(rank=33)")])
        with pytest.raises(InvalidArgument, match="min_ratio must be above 0"):
            engine.declare([spec("w", values, codec="powersgd(min_ratio=0)")])
        with pytest.raises(InvalidArgument, match="has no option 'ranks'"):
            engine.declare([spec("w", values, codec="powersgd(ranks=2)")])
        with pytest.raises(Unsupported, match="in group 'g'"):
            engine.declare([spec("w", values, codec="powersgd", group="g")])
        with pytest.raises(Unsupported, match="floating-point"):
            engine.declare([spec("w", values.astype(np.int32), codec="powersgd")])
        with pytest.raises(InvalidArgument, match=r"\[8, 8\] is not that of 4096 elements"):
            engine.declare([_core.TensorSpec("w", count=4096, shape="[8, 8]", codec="powersgd")])
        with pytest.raises(InvalidArgument, match="it has none"):
            engine.declare([_core.TensorSpec("w", count=4096, codec="powersgd")])

    run_ranks(1, body)
    codec = _core.create_codec("powersgd")
    with pytest.raises(Unsupported, match="has no encoding"):
        codec.encode(np.ones(4, np.float32))
