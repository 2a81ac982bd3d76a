# SPDX-License-Identifier: Apache-2.0
"""If ranks declare different tensors, all of them get an error that tells the difference."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest

from hipress import _core
from hipress.errors import DuplicateName, InvalidArgument, Mismatch, NotInitialized, Timeout, Unsupported
from tests.core.casync.engine_world import allreduce, outcomes, run_ranks, spec

VALUES = np.ones(100, np.float32)


@pytest.mark.parametrize(
    ("on_rank_1", "shown"),
    [
        ([("a", 100), ("c", 100)], "'b'.*'c'"),
        ([("a", 100), ("b", 101)], r"\[100\].*\[101\]"),
        ([("a", 100)], "rank 1 has no more tensors"),
        ([("b", 100), ("a", 100)], "tensor number 0"),
    ],
)
def test_different_lists_show_the_first_difference(on_rank_1: list[tuple[str, int]], shown: str) -> None:
    lists = [[("a", 100), ("b", 100)], on_rank_1]

    def body(engine: _core.Engine) -> Any:
        specs = [spec(name, np.ones(count, np.float32)) for name, count in lists[engine.rank]]
        return engine.agree("model", specs)

    for outcome in outcomes(2, body):
        assert isinstance(outcome, Mismatch)
        with pytest.raises(Mismatch, match=shown):
            raise outcome


def test_different_codecs_are_a_difference() -> None:
    def body(engine: _core.Engine) -> Any:
        codec = "onebit" if engine.rank else "fp16"
        return engine.agree("model", [spec("w", VALUES, codec=codec)])

    for outcome in outcomes(2, body):
        assert isinstance(outcome, Mismatch)
        assert "fp16" in str(outcome)
        assert "onebit" in str(outcome)


def test_after_a_mismatch_ranks_can_go_on() -> None:
    def body(engine: _core.Engine) -> Any:
        with pytest.raises(Mismatch):
            engine.agree("model", [spec(f"w{engine.rank}", VALUES)])
        return allreduce(engine, "right", VALUES).tolist()

    assert run_ranks(2, body) == [VALUES.tolist()] * 2


def test_a_rank_without_a_list_is_named() -> None:
    def body(engine: _core.Engine) -> Any:
        if engine.rank == 2:
            time.sleep(1.0)
            return None
        return engine.agree("model", [spec("w", VALUES)])

    for rank, outcome in enumerate(outcomes(3, body, options={"timeout": 0.5})):
        if rank != 2:
            assert isinstance(outcome, Timeout)
            assert "rank 2" in str(outcome)


def test_one_tensor_declared_differently_fails_on_both_sides() -> None:
    def body(engine: _core.Engine) -> Any:
        if engine.rank == 1:
            engine.allgather("rank 0 has declared", b"")
            return allreduce(engine, "w", np.ones(7, np.float32))
        (tensor,) = engine.declare([spec("w", VALUES)])
        operation = engine.submit(tensor, VALUES.copy(), VALUES.copy())
        engine.allgather("rank 0 has declared", b"")
        return engine.wait(operation)

    for outcome in outcomes(2, body):
        assert isinstance(outcome, Mismatch)
        assert "[100]" in str(outcome)
        assert "[7]" in str(outcome)


def test_two_tensors_with_one_name_are_refused() -> None:
    def body(engine: _core.Engine) -> None:
        with pytest.raises(DuplicateName, match="'w'"):
            engine.agree("model", [spec("w", VALUES), spec("w", VALUES)])

    run_ranks(1, body)


def test_submitting_a_tensor_in_flight_is_refused() -> None:
    def body(engine: _core.Engine) -> None:
        (tensor,) = engine.declare([spec("w", VALUES)])
        if engine.rank == 0:
            first = VALUES.copy()
            operation = engine.submit(tensor, first, first)
            with pytest.raises(DuplicateName, match="'w' is being synchronised already"):
                engine.submit(tensor, first, first)
            engine.allgather("tried", b"")
            engine.wait(operation)
        else:
            engine.allgather("tried", b"")
            second = VALUES.copy()
            engine.wait(engine.submit(tensor, second, second))

    run_ranks(2, body)


@pytest.mark.parametrize(
    ("options", "error", "shown"),
    [
        ({"codec": "twobit"}, InvalidArgument, "onebit"),
        ({"codec": "onebit(feedback=true)"}, InvalidArgument, "error_feedback"),
        ({"topology": "star"}, InvalidArgument, "ps"),
        ({"partitions": -1}, InvalidArgument, "partitions"),
        ({"prescale": float("nan")}, InvalidArgument, "finite"),
        ({"collective": "broadcast", "root": 3}, InvalidArgument, "root rank 3"),
    ],
)
def test_bad_options_say_which_exist(options: dict[str, Any], error: type[Exception], shown: str) -> None:
    def body(engine: _core.Engine) -> None:
        with pytest.raises(error, match=shown):
            engine.declare([spec("w", VALUES, **options)])

    run_ranks(1, body)


def test_codecs_refuse_integers() -> None:
    def body(engine: _core.Engine) -> None:
        with pytest.raises(Unsupported, match="int32"):
            engine.declare([spec("w", np.ones(9, np.int32), codec="fp16")])

    run_ranks(1, body)


def test_after_shutdown_the_engine_says_so() -> None:
    (engine,) = _core.make_local_engines(1)
    (tensor,) = engine.declare([spec("w", VALUES)])
    engine.shutdown(0.0)
    engine.shutdown(0.0)
    with pytest.raises((NotInitialized, InvalidArgument)):
        engine.submit(tensor, VALUES, VALUES.copy())
    with pytest.raises(NotInitialized):
        engine.declare([spec("x", VALUES)])


def test_without_pipelining_a_conflict_holds_up_nobody_behind_it() -> None:
    """A tensor with a conflict ends while it waits in the queue. The tensor before it ends later, and the tensor behind
    it begins."""
    told = threading.Event()

    def body(engine: _core.Engine) -> Any:
        first, last = np.ones(50, np.float32), np.ones(60, np.float32)
        tensors = engine.declare([spec("first", first), spec("last", last)])
        if engine.rank == 0:
            (disputed,) = engine.declare([spec("disputed", VALUES)])
            values = VALUES.copy()
            operations = [
                engine.submit(tensors[0], first, first),
                engine.submit(disputed, values, values),
                engine.submit(tensors[1], last, last),
            ]
            ready.set()
            with pytest.raises(Mismatch):
                engine.wait(operations.pop(1))
            told.set()
        else:
            assert ready.wait(20.0)
            with pytest.raises(Mismatch):
                engine.declare([spec("disputed", np.ones(101, np.float32))])
            assert told.wait(20.0)
            operations = [engine.submit(tensors[0], first, first), engine.submit(tensors[1], last, last)]
        for operation in operations:
            engine.wait(operation)
        return True

    ready = threading.Event()
    assert run_ranks(2, body, options={"pipelining": False, "timeout": 5.0}) == [True, True]
