# SPDX-License-Identifier: Apache-2.0
"""If ranks have made different updates of a parameter, all ranks get an error, in every topology."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hipress import _core
from hipress.errors import Mismatch, PeerLost
from tests.core.casync.engine_world import outcomes, run_ranks, spec

COUNT = 5_000


def _steps(engine: _core.Engine, updates: list[int], **options: Any) -> int:
    """The number of steps that end well. `updates`: this rank's number of updates before each step."""
    values = np.ones(COUNT, np.float32)
    tensors = engine.declare([spec(name, values, **options) for name in ("a", "b")])
    engine.allgather("declared", b"")
    for done in updates:
        operations = [engine.submit(tensor, values, values.copy(), updates=done) for tensor in tensors]
        for operation in operations:
            engine.wait(operation)
    return len(updates)


@pytest.mark.parametrize("topology", ["ps", "ring", "allgather", "hierarchical"])
@pytest.mark.parametrize("options", [{}, {"codec": "onebit"}, {"group": "g"}], ids=["raw", "onebit", "group"])
def test_a_rank_that_missed_an_update_is_named_on_all(topology: str, options: dict[str, Any]) -> None:
    def body(engine: _core.Engine) -> int:
        return _steps(engine, [1, 1 if engine.rank == 1 else 2], topology=topology, **options)

    for outcome in outcomes(3, body, options={"hosts": [0, 0, 1]}):
        assert isinstance(outcome, Mismatch)
        assert "rank 1 did not make an update of" in str(outcome)


def test_the_number_of_updates_may_pass_what_messages_hold() -> None:
    assert run_ranks(3, lambda engine: _steps(engine, [254, 255, 1, 2])) == [4, 4, 4]


def test_behind_is_found_also_where_the_number_begins_again() -> None:
    for outcome in outcomes(2, lambda engine: _steps(engine, [255, 255 if engine.rank == 1 else 1])):
        assert isinstance(outcome, Mismatch)
        assert "rank 1 did not make an update of" in str(outcome)


@pytest.mark.parametrize("options", [{}, {"group": "g"}], ids=["raw", "group"])
def test_ranks_that_multiply_the_average_by_different_factors_are_named(options: dict[str, Any]) -> None:
    updates = [1 + 255 * 9, 2 + 255 * 11]  # the digests are 9 and 11, the numbers of updates 0 and 1

    def body(engine: _core.Engine) -> int:
        return _steps(engine, [updates[0], updates[1] + 255 * (engine.rank == 1)], **options)

    for outcome in outcomes(2, body):
        assert isinstance(outcome, Mismatch)
        assert "rank 0 and rank 1 multiply the combined" in str(outcome)


def test_a_rank_that_does_not_count_is_compared_with_nobody() -> None:
    assert run_ranks(2, lambda engine: _steps(engine, [0, 0] if engine.rank == 1 else [1, 7])) == [2, 2]


def test_a_rank_ends_the_job_and_says_why_it_left() -> None:
    def declared(engine: _core.Engine) -> None:
        values = np.ones(COUNT, np.float32)
        engine.declare([spec(name, values) for name in ("a", "b")])
        engine.allgather("declared", b"")

    def fails(engine: _core.Engine) -> None:
        if engine.rank != 1:
            _steps(engine, [0])
        declared(engine)
        engine.fail("Mismatch", "rank 1 raised ValueError: boom")
        engine.raise_failure("going on")

    for outcome in outcomes(3, fails):
        assert isinstance(outcome, Mismatch)
        assert "rank 1 raised ValueError: boom" in str(outcome)

    def leaves(engine: _core.Engine) -> None:
        if engine.rank == 1:
            declared(engine)
            failed = engine.shutdown(10.0, "it ended with ValueError: boom")
            assert failed is not None
            assert "it ended with ValueError: boom" in failed
            return
        _steps(engine, [0])

    results = outcomes(3, leaves)
    assert results[1] is None
    for outcome in (results[0], results[2]):
        assert isinstance(outcome, PeerLost)
        assert "rank 1 has left the job (it ended with ValueError: boom)" in str(outcome)
