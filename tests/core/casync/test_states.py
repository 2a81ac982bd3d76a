# SPDX-License-Identifier: Apache-2.0
"""The engine keeps codec states by role, takes over new states only after success, and keeps them over failures and
other partitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hipress import _core
from hipress.errors import InvalidArgument, Mismatch
from tests.core.casync.engine_world import gradients, identical, run_ranks, spec

WORLD = 3
Floats = NDArray[np.float32]


def large(count: int, seed: int) -> list[Floats]:
    return [np.float32(8) * each for each in gradients(WORLD, count, seed)]


def states_of(engine: _core.Engine, name: str = "w") -> dict[tuple[str, str], Floats]:
    return {(role, state): engine.state(name, role, state) for tensor, role, state in engine.states() if tensor == name}


def rounded(momentum: Floats, residual: Floats) -> tuple[Floats, Floats]:
    total = momentum + residual
    sent = np.clip(np.rint(total), -127, 127)
    return sent, total - sent


def test_aggregators_encode_with_the_aggregates_codec(momentum_codec: str) -> None:
    """The bits equal the definition in tests/core/plugin/momentum.cc: only workers apply momentum."""
    count, steps = 5000, 4
    values = [large(count, step) for step in range(steps)]

    def body(engine: _core.Engine) -> Any:
        (tensor,) = engine.declare([spec("w", values[0][0], codec=momentum_codec, partitions=1)])
        outputs = []
        for step in range(steps):
            result = values[step][engine.rank].copy()
            engine.wait(engine.submit(tensor, result, result))
            outputs.append(result)
        return outputs, states_of(engine)

    by_rank = run_ranks(WORLD, body)
    for _, states in by_rank:
        assert set(states) == {("worker", "momentum"), ("worker", "residual"), ("aggregator", "residual")}
    (aggregator,) = [rank for rank in range(WORLD) if by_rank[rank][1]["aggregator", "residual"].any()]
    momentum = np.zeros((WORLD, count), np.float32)
    residual = np.zeros((WORLD, count), np.float32)
    merged_residual = np.zeros(count, np.float32)
    for step in range(steps):
        merged = np.zeros(count, np.float32)
        for rank in range(WORLD):
            contribution = values[step][rank]
            if rank != aggregator:
                momentum[rank] = np.float32(0.5) * momentum[rank] + contribution
                contribution, residual[rank] = rounded(momentum[rank], residual[rank])
            merged = contribution.copy() if rank == 0 else merged + contribution
        output, merged_residual = rounded(np.float32(1 / WORLD) * merged, merged_residual)
        for rank in range(WORLD):
            assert np.array_equal(by_rank[rank][0][step], output), (step, rank)
    for rank in range(WORLD):
        states = by_rank[rank][1]
        assert np.array_equal(states["worker", "momentum"], momentum[rank])
        assert np.array_equal(states["worker", "residual"], residual[rank])
    assert np.array_equal(by_rank[aggregator][1]["aggregator", "residual"], merged_residual)


@pytest.mark.parametrize("step", [0, 2])
def test_a_value_that_is_not_finite_leaves_the_states_of_all_partitions(momentum_codec: str, step: int) -> None:
    """In the first step no encode has written the states yet, so they are zeros; later they hold values."""
    count = 8 * 1024

    def body(engine: _core.Engine) -> Any:
        (tensor,) = engine.declare([spec("w", np.zeros(count, np.float32), codec=momentum_codec, partitions=8)])
        before: dict[tuple[str, str], Floats] = {}
        for turn in range(step + 1):
            before = states_of(engine)
            values = large(count, turn)[engine.rank]
            if turn == step and engine.rank == 1:
                values[1024 * 5 - 1] = np.nan  # the last value of partition 4
                values[1024 * 6] = np.inf  # the first value of partition 6
            engine.wait(engine.submit(tensor, values, values))
        return values, before, states_of(engine)

    by_rank = run_ranks(WORLD, body)
    assert identical([values for values, _, _ in by_rank])
    bad = np.isnan(by_rank[0][0]).reshape(8, 1024)
    assert bad.all(axis=1).tolist() == bad.any(axis=1).tolist() == [p in (4, 6) for p in range(8)]
    # Only rank 1 has values that are not finite; all ranks drop the step.
    for _, before, after in by_rank:
        for key, values in after.items():
            assert values.tobytes() == before.get(key, np.zeros(count, np.float32)).tobytes(), key
    assert step == 0 or by_rank[0][2]["worker", "momentum"].any()


def test_states_survive_other_partitions() -> None:
    """A tensor that is declared again under its name may have other partitions each time."""
    count, cuts = 20_000, [1, 7, 3, 0, 20, 2]
    values = [np.float32(8) * np.asarray(gradients(2, count, step)) for step in range(len(cuts))]

    def body(engine: _core.Engine) -> list[Floats]:
        conserved = []
        for step, partitions in enumerate(cuts):
            before = states_of(engine)
            declared = spec("w", values[0][0], codec="onebit", partitions=partitions, transient=True)
            (tensor,) = engine.declare([declared])
            result = values[step][engine.rank].copy()
            engine.wait(engine.submit(tensor, result, result))
            after = states_of(engine)
            zeros = np.zeros(count, np.float32)
            change = np.zeros(count)
            for role, weight in (("worker", 1), ("aggregator", 2)):
                old, new = (each.get((role, "residual"), zeros) for each in (before, after))
                change += weight * (new.astype(np.float64) - old)
            conserved.append(np.concatenate([result.astype(np.float64), change]))
        return conserved

    left, right = run_ranks(2, body)
    for step in range(len(cuts)):
        output = left[step][:count]
        # Each input is in the output or in a residual, so the change of partitions lost nothing.
        entering = values[step].sum(axis=0, dtype=np.float64)
        leaving = 2 * output + left[step][count:] + right[step][count:]
        assert np.max(np.abs(entering - leaving)) < 1e-3, step


def test_large_partitions_are_encoded_by_several_threads_with_one_result(momentum_codec: str) -> None:
    count = 600_000
    values = large(count, 0)

    def body(engine: _core.Engine) -> tuple[Floats, dict[tuple[str, str], Floats]]:
        (tensor,) = engine.declare([spec("w", values[0], codec=momentum_codec, partitions=2)])
        for _ in range(2):
            result = values[engine.rank].copy()
            engine.wait(engine.submit(tensor, result, result))
        return result, states_of(engine)

    results = [run_ranks(WORLD, body, options={"compute_threads": threads}) for threads in (1, 3)]
    for one, several in zip(*results, strict=True):
        assert one[0].tobytes() == several[0].tobytes()
        assert all(one[1][key].tobytes() == several[1][key].tobytes() for key in one[1])


def test_another_codec_goes_on_with_the_states_it_knows_and_residuals_that_nobody_keeps_are_held_back() -> None:
    count = 6000
    values = large(count, 0)

    def body(engine: _core.Engine) -> Any:
        specs = {codec: spec("w", values[0], codec=codec, partitions=3) for codec in ("dgc", "graddrop", "none")}
        (first,) = engine.agree("list", [specs["dgc"]])
        engine.wait(engine.submit(first, values[engine.rank], np.empty(count, np.float32)))
        before = states_of(engine)
        ((second, nothing),) = engine.agree_anew("list 2", [first], [specs["graddrop"]])
        assert nothing is None
        kept = states_of(engine)
        ((_, held_back),) = engine.agree_anew("list 3", [second], [specs["none"]])
        with pytest.raises(InvalidArgument, match="there is no tensor"):
            engine.submit(first, values[0], np.empty(count, np.float32))
        return before, kept, held_back, states_of(engine)

    for before, kept, held_back, left in run_ranks(WORLD, body):
        assert set(before) == {(r, s) for r in ("worker", "aggregator") for s in ("velocity", "residual")}
        assert kept.keys() == {("worker", "residual"), ("aggregator", "residual")}
        for key, residual in kept.items():
            assert residual.tobytes() == before[key].tobytes()
        # An aggregator's residual belongs to an average; as an unsent residual it has the unit of contributions.
        expected = kept["worker", "residual"] + WORLD * kept["aggregator", "residual"]
        assert np.allclose(held_back, expected, rtol=1e-6, atol=0)
        assert left == {}


def test_what_stays_as_it_is_keeps_its_number_and_its_steps() -> None:
    values = large(5000, 0)

    def body(engine: _core.Engine) -> Any:
        specs = [spec(name, values[0], codec="terngrad") for name in ("a", "b")]
        handles = engine.agree("list", specs)
        anew = engine.agree_anew("list 2", handles, [specs[0], spec("b", values[0], codec="onebit")])
        return handles, [handle for handle, _ in anew]

    for handles, anew in run_ranks(WORLD, body):
        assert anew[0] == handles[0]
        assert anew[1] not in handles


def test_ranks_that_want_different_codecs_keep_the_one_they_have() -> None:
    values = large(5000, 0)

    def body(engine: _core.Engine) -> Any:
        handles = engine.agree("list", [spec("w", values[0], codec="onebit")])
        with pytest.raises(Mismatch, match=r"list 2.*'w'.*tbq"):
            engine.agree_anew("list 2", handles, [spec("w", values[0], codec="tbq" if engine.rank == 1 else "none")])
        result = np.empty(5000, np.float32)
        engine.wait(engine.submit(handles[0], values[engine.rank], result))
        return result

    assert identical(run_ranks(WORLD, body))


def test_only_a_codec_can_be_another_one() -> None:
    def body(engine: _core.Engine) -> None:
        values = np.ones(5000, np.float32)
        handles = engine.agree("list", [spec("w", values, codec="onebit")])
        for other in (spec("v", values), spec("w", values[1:]), spec("w", values.astype(np.float64))):
            with pytest.raises(InvalidArgument, match="tensor 'w' can be sent in another way"):
                engine.agree_anew("list 2", handles, [other])
        with pytest.raises(InvalidArgument, match="one handle per tensor"):
            engine.agree_anew("list 2", handles, [])
        if engine.rank == 0:  # the other ranks have not submitted, so the operation cannot have ended
            operation = engine.submit(handles[0], values, values)
            with pytest.raises(InvalidArgument, match="being synchronised"):
                engine.agree_anew("list 2", handles, [spec("w", values, codec="tbq")])
        engine.allgather("now", b"")
        if engine.rank != 0:
            operation = engine.submit(handles[0], values, values)
        engine.wait(operation)

    run_ranks(WORLD, body)
