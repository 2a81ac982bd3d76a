# SPDX-License-Identifier: Apache-2.0
"""A tensor's codec states can be read from one engine and restored in another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hipress import _core
from hipress.errors import InvalidArgument
from tests.core.casync.engine_world import gradients, run_ranks, spec

WORLD = 3
COUNT = 5 * 1024 + 7
NAMES = ("a", "b")


def values_of(rank: int, step: int) -> dict[str, Any]:
    return {name: gradients(WORLD, COUNT, 10 * step + number)[rank] for number, name in enumerate(NAMES)}


def agree(engine: _core.Engine, codec: str, group: str) -> list[int]:
    like = np.empty(COUNT, np.float32)
    return engine.agree("list", [spec(name, like, codec=codec, partitions=2, group=group) for name in NAMES])


def steps(engine: _core.Engine, handles: list[int], numbers: range) -> list[bytes]:
    results = []
    for step in numbers:
        arrays = list(values_of(engine.rank, step).values())
        operations = [engine.submit(*each, each[1]) for each in zip(handles, arrays, strict=True)]
        for operation in operations:
            engine.wait(operation)
        results.append(b"".join(array.tobytes() for array in arrays))
    return results


def read(engine: _core.Engine, handles: list[int]) -> list[Any]:
    """The states of the tensors, as restore_states() takes them."""
    saved = []
    for handle in handles:
        step, random, stretches, states = engine.kept_states(handle)
        saved.append((step, random, stretches, {state: engine.read_state(handle, state) for state in states}))
    return saved


@pytest.mark.parametrize("group", ["", "both"])
@pytest.mark.parametrize("codec", ["onebit", "int8(error_feedback=true)", "dgc(ratio=0.01)"])
def test_an_engine_goes_on_to_the_bit_from_the_states_of_another(codec: str, group: str) -> None:
    def straight(engine: _core.Engine) -> Any:
        handles = agree(engine, codec, group)
        steps(engine, handles, range(4))
        return read(engine, handles), steps(engine, handles, range(4, 8))

    by_rank = run_ranks(WORLD, straight)

    def resumed(engine: _core.Engine) -> Any:
        engine.declare([spec("before", np.empty(3, np.float32))])  # this tensor shifts the numbers of the others
        handles = agree(engine, codec, group)
        saved, _ = by_rank[engine.rank]
        assert engine.restore_states(handles, saved) == [None, None]
        return steps(engine, handles, range(4, 8))

    assert run_ranks(WORLD, resumed) == [after for _, after in by_rank]


def test_a_group_goes_on_as_two_tensors_and_back_without_loss() -> None:
    def first(engine: _core.Engine) -> Any:
        handles = agree(engine, "onebit", "both")
        steps(engine, handles, range(2))
        return read(engine, handles)

    by_rank = run_ranks(WORLD, first)

    def residuals(saved: Any) -> Any:
        """The sum of the residuals in the unit of the average."""
        total = np.zeros((2, COUNT))
        for index, (_, _, stretches, states) in enumerate(saved):
            start = 0
            for count, _, factor in stretches:
                part = slice(start, start + count)
                total[index, part] += states["residual"][part].astype(np.float64) / factor / WORLD
                start += count
        return total

    def alone_and_back(engine: _core.Engine) -> Any:
        alone = agree(engine, "onebit", "")
        assert engine.restore_states(alone, by_rank[engine.rank]) == [None, None]
        return read(engine, alone)

    before = sum(residuals(saved) for saved in by_rank)
    after = sum(residuals(saved) for saved in run_ranks(WORLD, alone_and_back))
    assert np.abs(before).max() > 0.1
    np.testing.assert_allclose(after, before, rtol=0, atol=1e-6)


def test_what_cannot_be_restored_changes_nothing() -> None:
    def body(engine: _core.Engine) -> None:
        handles = agree(engine, "onebit", "both")
        steps(engine, handles, range(2))
        saved = read(engine, handles)
        (step, random, stretches, states) = saved[0]
        wrong = {
            "travels with 'b'": (handles[:1], saved[:1]),
            "one handle for each": (handles, saved[:1]),
            "there is no tensor": ([handles[0], 999], saved),
            "stretches of tensor 'a' have 0 elements": (handles, [(step, random, [], states), saved[1]]),
            "'residual' of tensor 'a' has 3 elements": (
                handles,
                [(step, random, stretches, {"residual": np.zeros(3, np.float32)}), saved[1]],
            ),
            "role 'x' does not exist": (handles, [(step, random, [(COUNT, "x", 1.0)], states), saved[1]]),
        }
        for text, (tensors, restored) in wrong.items():
            with pytest.raises(InvalidArgument, match=text):
                engine.restore_states(tensors, restored)
        for one, other in zip(read(engine, handles), saved, strict=True):
            assert one[:3] == other[:3]
            assert one[3]["residual"].tobytes() == other[3]["residual"].tobytes()
        # Only this rank submits now, so its operation cannot end.
        engine.allgather("now", b"")
        if engine.rank == 0:
            array = values_of(0, 2)["a"]
            operation = engine.submit(handles[0], array, array)
            for call in (engine.kept_states, lambda each: engine.read_state(each, "residual")):
                with pytest.raises(InvalidArgument, match="'a' is being synchronised"):
                    call(handles[0])
            with pytest.raises(InvalidArgument, match="'a' is being synchronised"):
                engine.restore_states(handles, saved)
            other_array = values_of(0, 2)["b"]
            operations = [operation, engine.submit(handles[1], other_array, other_array)]
            engine.allgather("go on", b"")
            for each in operations:
                engine.wait(each)
        else:
            engine.allgather("go on", b"")
            steps(engine, handles, range(2, 3))

    run_ranks(WORLD, body)
