# SPDX-License-Identifier: Apache-2.0
"""An operation for which no thread waits calls a function at its end."""

from __future__ import annotations

import sys
import threading
from typing import Any

import numpy as np
import pytest

from hipress import _core
from tests.core.casync.engine_world import gradients, run_ranks, spec

#: Seconds, many more than any event here needs.
_PATIENCE = 30.0


class Ending:
    """Records the end of one operation."""

    def __init__(self) -> None:
        self.calls: list[tuple[str | None, bool]] = []
        self._called = threading.Event()

    def __call__(self, error: str | None, absent: bool) -> None:
        self.calls.append((error, absent))
        self._called.set()

    def wait(self) -> tuple[str | None, bool]:
        assert self._called.wait(_PATIENCE), "the function was not called at the end of the operation"
        return self.calls[0]


@pytest.mark.parametrize("world_size", [1, 2, 4])
@pytest.mark.parametrize("codec", ["none", "onebit"])
def test_the_function_is_called_when_the_output_is_there(world_size: int, codec: str) -> None:
    values = gradients(world_size, 50_000)

    def body(engine: _core.Engine) -> Any:
        (tensor,) = engine.declare([spec("gradient", values[0], op="average", codec=codec)])
        results = []
        for _ in range(3):  # each time the tensor is submitted as soon as its operation has ended
            result = values[engine.rank].copy()
            ending = Ending()
            engine.submit(tensor, result, result, on_done=ending)
            assert ending.wait() == (None, False)
            results.append(result)
        return results

    ranks = run_ranks(world_size, body)
    for step in range(3):
        assert len({results[step].tobytes() for results in ranks}) == 1
    if codec == "none":
        np.testing.assert_allclose(ranks[0][0], np.mean(values, axis=0), rtol=1e-5, atol=1e-6)


def test_the_function_learns_that_no_rank_had_values() -> None:
    def body(engine: _core.Engine) -> Any:
        output = np.zeros(7, np.float32)
        (tensor,) = engine.declare([spec("gradient", output)])
        ending = Ending()
        engine.submit(tensor, None, output, on_done=ending)
        return ending.wait()

    assert run_ranks(2, body) == [(None, True), (None, True)]


def test_a_deadline_passes_without_anybody_waiting() -> None:
    """Rank 1 never submits, and rank 0's engine itself reports the timeout."""
    told = threading.Event()

    def body(engine: _core.Engine) -> Any:
        values = np.ones(7, np.float32)
        (tensor,) = engine.declare([spec("late gradient", values)])
        if engine.rank == 1:
            assert told.wait(_PATIENCE)
            return None
        ending = Ending()
        engine.submit(tensor, values, values, on_done=ending)
        result = ending.wait()
        told.set()
        return result

    error, absent = run_ranks(2, body, options={"timeout": 1.0})[0]
    assert error is not None
    assert "'late gradient'" in error
    assert "rank 1" in error
    assert not absent


def test_a_rank_that_leaves_ends_it_once() -> None:
    def body(engine: _core.Engine) -> Any:
        values = np.ones(7, np.float32)
        (tensor,) = engine.declare([spec("gradient", values)])
        if engine.rank == 1:
            return None
        ending = Ending()
        engine.submit(tensor, values, values, on_done=ending)
        ending.wait()
        return ending.calls

    ((error, _),) = run_ranks(2, body)[0]
    assert error is not None
    assert "rank 1 has left" in error


def test_shutting_down_ends_it() -> None:
    endings = [Ending(), Ending()]

    def body(engine: _core.Engine) -> Any:
        values = np.ones(7, np.float32)
        (tensor,) = engine.declare([spec("gradient", values)])
        if engine.rank == 0:
            engine.submit(tensor, values, values, on_done=endings[0])
        return None

    run_ranks(2, body, linger=0.2)
    error, _ = endings[0].wait()
    assert error is not None


def test_an_exception_in_the_function_is_reported_and_ends_there(monkeypatch: pytest.MonkeyPatch) -> None:
    reported = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: reported.append(str(unraisable.exc_value)))

    def raises(_error: str | None, _absent: bool) -> None:
        raise RuntimeError("a function that fails")

    def body(engine: _core.Engine) -> None:
        for name, on_done in (("first", raises), ("second", None)):
            values = np.ones(7, np.float32)
            (tensor,) = engine.declare([spec(name, values)])
            operation = engine.submit(tensor, values, values, on_done=on_done)
            if on_done is None:
                engine.wait(operation)

    run_ranks(1, body)
    assert reported == ["a function that fails"]
