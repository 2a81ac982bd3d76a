# SPDX-License-Identifier: Apache-2.0
"""Sums of encoded values beside the rest: other codecs, checkpoints, lost ranks, many tensors in flight."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hipress import _core
from hipress.errors import HipressError, PeerLost
from tests.core.casync.engine_world import identical, outcomes, run_ranks, spec

Floats = NDArray[np.float32]
COUNT = 3000
CODEC = "int8_shared(levels=7)"


def values_of(rank: int, step: int) -> Floats:
    return np.random.default_rng([rank, step]).standard_normal(COUNT).astype(np.float32)


def stepped(engine: _core.Engine, tensor: int, step: int) -> Floats:
    output = values_of(engine.rank, step)
    engine.wait(engine.submit(tensor, output, output))
    return output


def residual_of(engine: _core.Engine) -> Floats:
    return engine.state("w", "worker", "residual").copy()


@pytest.mark.parametrize("then", ["onebit", "int8_shared(levels=60, block=16)", "powersgd(min_ratio=0.001)"])
def test_the_residual_lives_on_with_another_codec(then: str) -> None:
    def body(engine: _core.Engine) -> tuple[Floats, Floats, Floats]:
        handles = engine.agree("list", [spec("w", values_of(0, 0), codec=CODEC)])
        stepped(engine, handles[0], 0)
        before = residual_of(engine)
        ((handle, unsent),) = engine.agree_anew(
            "list 1", handles, [spec("w", values_of(0, 0), codec=then, partitions=1)]
        )
        assert unsent is None
        output = stepped(engine, handle, 1)
        after = residual_of(engine)
        if ("w", "aggregator", "residual") in engine.states():
            after = after + 2 * engine.state("w", "aggregator", "residual")
        return before, output, after

    by_rank = run_ranks(2, body)
    assert identical([output for _, output, _ in by_rank])
    assert np.abs(by_rank[0][0]).max() > 0.01
    entering = np.sum([before + values_of(rank, 1) for rank, (before, _, _) in enumerate(by_rank)], axis=0)
    leaving = 2 * by_rank[0][1] + np.sum([after for _, _, after in by_rank], axis=0)
    np.testing.assert_allclose(leaving, entering, rtol=0, atol=1e-4)


def test_the_residual_of_another_codec_lives_on() -> None:
    """The aggregator's residual is of the mean; what ranks hold back after the change is of their own values."""

    def body(engine: _core.Engine) -> tuple[Floats, Floats, Floats]:
        handles = engine.agree("list", [spec("w", values_of(0, 0), codec="onebit", partitions=1)])
        stepped(engine, handles[0], 0)
        ((handle, unsent),) = engine.agree_anew("list 1", handles, [spec("w", values_of(0, 0), codec=CODEC)])
        assert unsent is None
        before = residual_of(engine)
        return before, stepped(engine, handle, 1), residual_of(engine)

    by_rank = run_ranks(2, body)
    assert identical([output for _, output, _ in by_rank])
    entering = np.sum([before + values_of(rank, 1) for rank, (before, _, _) in enumerate(by_rank)], axis=0)
    leaving = 2 * by_rank[0][1] + np.sum([after for _, _, after in by_rank], axis=0)
    np.testing.assert_allclose(leaving, entering, rtol=0, atol=1e-4)


def test_without_a_codec_the_residual_is_given_back() -> None:
    def body(engine: _core.Engine) -> bool:
        handles = engine.agree("list", [spec("w", values_of(0, 0), codec=CODEC)])
        stepped(engine, handles[0], 0)
        before = residual_of(engine)
        ((_, unsent),) = engine.agree_anew("list 1", handles, [spec("w", values_of(0, 0))])
        assert unsent is not None
        return identical([before, unsent])

    assert run_ranks(2, body) == [True, True]


def test_states_come_back_to_the_bit() -> None:
    """Random rounding included: a step that is made again uses the numbers of that step."""

    def body(engine: _core.Engine) -> bool:
        (tensor,) = engine.declare([spec("w", values_of(0, 0), codec="int8_shared(levels=7, stochastic=true)")])
        for step in range(2):
            stepped(engine, tensor, step)
        step, random, stretches, names = engine.kept_states(tensor)
        assert set(names) == {"residual"}
        saved: Any = (step, random, stretches, {name: engine.read_state(tensor, name) for name in names})
        expected = stepped(engine, tensor, 2)
        stepped(engine, tensor, 3)
        assert engine.restore_states([tensor], [saved]) == [None]
        return identical([expected, stepped(engine, tensor, 2)])

    assert run_ranks(2, body) == [True, True]


def test_a_failed_step_changes_no_state() -> None:
    def body(engine: _core.Engine) -> bool:
        (tensor,) = engine.declare([spec("w", values_of(0, 0), codec=CODEC)])
        stepped(engine, tensor, 0)
        before = residual_of(engine)
        engine.allgather("the first step has ended", b"")
        if engine.rank == 1:
            engine.fail("Mismatch", "killed")
        with pytest.raises(HipressError):
            stepped(engine, tensor, 1)
        return identical([before, residual_of(engine)])

    assert run_ranks(2, body, linger=0.5) == [True, True]


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


def test_many_tensors_among_other_codecs_in_any_order() -> None:
    """All in flight together, submitted in another order on each rank, some of them absent: replicas are identical, and
    neither threads nor the size from which work is queued change a bit."""
    world, tensors = 3, 15
    sizes = np.random.default_rng(0).integers(1, 20000, tensors)
    codecs = [CODEC, "powersgd", "onebit", "none", "int8_shared(stochastic=true, error_feedback=false)"]

    def body(engine: _core.Engine) -> bytes:
        generator = np.random.default_rng(engine.rank)
        values = [generator.standard_normal(size).astype(np.float32) for size in sizes]
        specs = [
            spec(f"w{i}", each, codec=codecs[i % 5], topology=("ps", "ring", "butterfly")[i % 3], priority=-i)
            for i, each in enumerate(values)
        ]
        handles = engine.agree("list", specs)
        found = b""
        for step in range(6):
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
