# SPDX-License-Identifier: Apache-2.0
"""PowerSGD with ranks without values, with other codecs, checkpoints, lost ranks and other options."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hipress import _core
from hipress.errors import HipressError, Mismatch, PeerLost
from tests.core.casync.engine_world import identical, outcomes, run_ranks, spec
from tests.core.casync.powersgd_reference import Reference

Floats = NDArray[np.float32]
SHAPE = (40, 60)
CODEC = "powersgd(rank=2)"


def values_of(rank: int, step: int) -> Floats:
    generator = np.random.default_rng([rank, step])
    return (np.random.default_rng(7).standard_normal(SHAPE) + generator.standard_normal(SHAPE)).astype(np.float32)


def stepped(engine: _core.Engine, tensor: int, step: int, *, absent: bool = False) -> tuple[Floats, bool]:
    output = values_of(engine.rank, step)
    nobody = engine.wait(engine.submit(tensor, None if absent else output, output))
    return output, nobody


def residual_of(engine: _core.Engine) -> Floats:
    return engine.state("w", "worker", "residual").reshape(SHAPE)


def test_a_rank_without_values_gets_the_result_and_nothing_is_lost() -> None:
    """The rank without values keeps its residual: inputs + residuals before = outputs + residuals after."""
    world = 3
    reference = Reference(SHAPE, world, rank=2)

    def body(engine: _core.Engine) -> list[tuple[Floats, Floats]]:
        (tensor,) = engine.declare([spec("w", values_of(0, 0), codec=CODEC)])
        seen = []
        for step in range(4):
            output, nobody = stepped(engine, tensor, step, absent=step == 2 and engine.rank == 1)
            assert not nobody
            seen.append((output, residual_of(engine)))
        return seen

    by_rank = run_ranks(world, body)
    before = np.zeros(SHAPE)
    for step in range(4):
        assert identical([seen[step][0] for seen in by_rank])
        present = [rank for rank in range(world) if (step, rank) != (2, 1)]
        entering = before + np.sum([values_of(rank, step) for rank in present], axis=0, dtype=np.float64)
        before = np.sum([seen[step][1] for seen in by_rank], axis=0, dtype=np.float64)
        leaving = world * by_rank[0][step][0].astype(np.float64) + before
        assert np.abs(entering - leaving).max() <= 1e-5 * np.abs(entering).max(), step
        expected = reference.step([values_of(rank, step) if rank in present else None for rank in range(world)])
        np.testing.assert_allclose(by_rank[0][step][0], expected, rtol=0, atol=1e-5)
        for rank in range(world):
            np.testing.assert_allclose(by_rank[rank][step][1], reference.residuals[rank], rtol=0, atol=1e-5)
    assert identical([by_rank[1][1][1], by_rank[1][2][1]])


def test_a_step_without_any_values_changes_nothing() -> None:
    def body(engine: _core.Engine) -> tuple[list[Floats], list[bool]]:
        (tensor,) = engine.declare([spec("w", values_of(0, 0), codec=CODEC)])
        first, _ = stepped(engine, tensor, 0)
        kept = residual_of(engine).copy()
        untouched, nobody = stepped(engine, tensor, 5, absent=True)
        assert nobody
        assert identical([untouched, values_of(engine.rank, 5)])
        assert identical([residual_of(engine), kept])
        second, nobody = stepped(engine, tensor, 1)
        assert not nobody
        return [first, second], []

    reference = Reference(SHAPE, 2, rank=2)
    expected = [reference.step([values_of(rank, step) for rank in range(2)]) for step in range(2)]
    for results, _ in run_ranks(2, body):
        np.testing.assert_allclose(results, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("then", ["onebit", "powersgd(rank=5)", "powersgd(rank=1, warm_start=false)"])
def test_the_residual_lives_on_with_another_codec(then: str) -> None:
    def body(engine: _core.Engine) -> tuple[Floats, Floats, Floats]:
        handles = engine.agree("list", [spec("w", values_of(0, 0), codec=CODEC)])
        stepped(engine, handles[0], 0)
        before = residual_of(engine).copy()
        ((handle, unsent),) = engine.agree_anew(
            "list 1", handles, [spec("w", values_of(0, 0), codec=then, partitions=1)]
        )
        assert unsent is None
        output, _ = stepped(engine, handle, 1)
        after = residual_of(engine)
        if then == "onebit":
            kept = [key for key in engine.states() if key == ("w", "aggregator", "residual")]
            after = after + (2 * engine.state(*kept[0]).reshape(SHAPE) if kept else 0)
        return before, output, after

    by_rank = run_ranks(2, body)
    assert identical([output for _, output, _ in by_rank])
    entering = np.sum([before + values_of(rank, 1) for rank, (before, _, _) in enumerate(by_rank)], axis=0)
    leaving = 2 * by_rank[0][1] + np.sum([after for _, _, after in by_rank], axis=0)
    np.testing.assert_allclose(leaving, entering, rtol=0, atol=1e-4)


def test_without_a_codec_the_residual_is_given_back() -> None:
    def body(engine: _core.Engine) -> bool:
        handles = engine.agree("list", [spec("w", values_of(0, 0), codec=CODEC)])
        stepped(engine, handles[0], 0)
        before = residual_of(engine).copy()
        ((handle, unsent),) = engine.agree_anew("list 1", handles, [spec("w", values_of(0, 0))])
        assert unsent is not None
        mean, _ = stepped(engine, handle, 1)
        np.testing.assert_array_equal(mean, (values_of(0, 1) + values_of(1, 1)) / np.float32(2))
        return identical([before, unsent.reshape(SHAPE)])

    assert run_ranks(2, body) == [True, True]


def test_states_come_back_to_the_bit() -> None:
    def body(engine: _core.Engine) -> bool:
        (tensor,) = engine.declare([spec("w", values_of(0, 0), codec=CODEC)])
        for step in range(2):
            stepped(engine, tensor, step)
        step, random, stretches, names = engine.kept_states(tensor)
        assert set(names) == {"residual", "factor"}
        saved: Any = (step, random, stretches, {name: engine.read_state(tensor, name) for name in names})
        assert np.count_nonzero(saved[3]["factor"]) == 2 * SHAPE[1]
        expected, _ = stepped(engine, tensor, 2)
        stepped(engine, tensor, 3)
        assert engine.restore_states([tensor], [saved]) == [None]
        again, _ = stepped(engine, tensor, 2)
        return identical([expected, again])

    assert run_ranks(2, body) == [True, True]


def test_a_lost_rank_ends_the_step_with_an_error() -> None:
    def body(engine: _core.Engine) -> None:
        (tensor,) = engine.declare([spec("w", values_of(0, 0), codec=CODEC)])
        stepped(engine, tensor, 0)
        if engine.rank == 1:
            engine.fail("Mismatch", "killed")
        stepped(engine, tensor, 1)

    for error in outcomes(2, body, linger=0.5):
        assert isinstance(error, HipressError), error


def test_a_rank_that_leaves_is_named() -> None:
    def body(engine: _core.Engine) -> None:
        (tensor,) = engine.declare([spec("w", values_of(0, 0), codec=CODEC)])
        stepped(engine, tensor, 0)
        if engine.rank == 0:
            stepped(engine, tensor, 1)

    first, second = outcomes(2, body, options={"timeout": 5.0}, linger=0.5)
    assert second is None
    assert isinstance(first, PeerLost)
    assert "'w" in str(first)


def test_other_options_are_a_mismatch() -> None:
    def body(engine: _core.Engine) -> None:
        engine.agree("list", [spec("w", values_of(0, 0), codec=f"powersgd(rank={1 + engine.rank})")])

    for error in outcomes(2, body):
        assert isinstance(error, Mismatch)
        assert "powersgd(rank=" in str(error)


def test_many_matrices_among_other_codecs_in_any_order() -> None:
    """All tensors are in flight at once, each rank submits them in another order, and some ranks lack some of them.
    Replicas are identical. The number of threads and the size from which work is queued change no bit."""
    world, tensors = 3, 15
    sizes = np.random.default_rng(0).integers(1, 200, (tensors, 2))
    codecs = ["powersgd(rank=2)", "powersgd(error_feedback=false)", "onebit", "none", "powersgd(warm_start=false)"]

    def body(engine: _core.Engine) -> bytes:
        generator = np.random.default_rng(engine.rank)
        values = [generator.standard_normal(size).astype(np.float32) for size in sizes]
        specs = [
            spec(f"w{i}", each, codec=codecs[i % 5], topology=("ps", "ring", "butterfly")[i % 3], priority=-i)
            for i, each in enumerate(values)
        ]
        handles = engine.agree("list", specs)
        found = b""
        for step in range(12):
            outputs = [each * np.float32(1 + step % 3) for each in values]
            operations = {}
            for i in generator.permutation(tensors):
                absent = step % 4 == 3 and i % world == engine.rank
                operations[i] = engine.submit(handles[i], None if absent else outputs[i], outputs[i])
            for operation in operations.values():
                engine.wait(operation)
            found += b"".join(output.tobytes() for output in outputs)
        return found

    options: list[dict[str, Any]] = [{"compute_threads": 1}, {"compute_threads": 3, "inline_elements": 10}]
    by_options = [run_ranks(world, body, options=each) for each in options]
    assert len({found for by_rank in by_options for found in by_rank}) == 1
