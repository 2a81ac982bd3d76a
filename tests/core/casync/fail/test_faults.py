# SPDX-License-Identifier: Apache-2.0
"""If a rank is silent, leaves or lies, every other rank raises in time a typed error that names the rank and the
tensor."""

from __future__ import annotations

import re
import time
from threading import Event
from typing import Any

import numpy as np
import pytest

from hipress import _core
from hipress.errors import CorruptPayload, HipressError, PeerLost, Timeout
from tests.core.casync.engine_world import allreduce, outcomes, run_ranks, spec

COUNT = 50_000


@pytest.mark.parametrize("world_size", [2, 4])
@pytest.mark.parametrize("partitions", [1, 8])
def test_a_rank_that_does_not_submit_is_named_with_the_tensor(world_size: int, partitions: int) -> None:
    late = world_size - 1

    def body(engine: _core.Engine) -> Any:
        values = np.ones(COUNT, np.float32)
        (tensor,) = engine.declare([spec("conv.weight", values, partitions=partitions)])
        if engine.rank == late:
            time.sleep(2.5)
            return None
        start = time.monotonic()
        try:
            engine.wait(engine.submit(tensor, values, values))
        finally:
            assert time.monotonic() - start < 2.4
        return None

    for rank, outcome in enumerate(outcomes(world_size, body, options={"timeout": 1.0})):
        if rank == late:
            continue
        assert isinstance(outcome, Timeout)
        assert "'conv.weight'" in str(outcome)
        assert f"rank {late}" in str(outcome)


def test_after_a_failure_everything_raises_it() -> None:
    def body(engine: _core.Engine) -> None:
        values = np.ones(COUNT, np.float32)
        (tensor,) = engine.declare([spec("w", values)])
        if engine.rank == 1:
            time.sleep(1.5)
            with pytest.raises(Timeout, match="rank 1"):
                engine.submit(tensor, values, values)
            return
        with pytest.raises(Timeout):
            engine.wait(engine.submit(tensor, values, values))
        with pytest.raises(Timeout):
            engine.submit(tensor, values, values)
        with pytest.raises(Timeout):
            engine.declare([spec("x", values)])

    run_ranks(2, body, options={"timeout": 0.5})


def test_a_rank_that_leaves_while_others_wait_is_named() -> None:
    def body(engine: _core.Engine) -> Any:
        values = np.ones(COUNT, np.float32)
        (tensor,) = engine.declare([spec("w", values)])
        engine.allgather("declared", b"")
        if engine.rank == 1:
            return None  # the rank shuts down
        return engine.wait(engine.submit(tensor, values, values))

    for rank, outcome in enumerate(outcomes(3, body, linger=0.0)):
        if rank != 1:
            assert isinstance(outcome, PeerLost)
            assert "rank 1 has left" in str(outcome)


def test_a_rank_may_leave_right_after_its_last_operation() -> None:
    def body(engine: _core.Engine) -> float:
        if engine.rank == 1:
            time.sleep(0.5)
        return float(allreduce(engine, "w", np.full(COUNT, engine.rank, np.float32))[0])

    assert run_ranks(2, body) == [0.5, 0.5]


def test_a_dropped_message_is_a_timeout() -> None:
    dropped = []

    def intercept(source: int, destination: int, payload: bytes) -> bool:
        if source == 1 and destination == 0 and not dropped:
            dropped.append(payload)
            return False
        return True

    for outcome in outcomes(
        3,
        lambda engine: allreduce(engine, "w", np.ones(COUNT, np.float32), partitions=6),
        options={"timeout": 1.0},
        intercept=intercept,
    ):
        # A rank that needed no lost message may have finished before the other ranks gave up.
        if isinstance(outcome, BaseException):
            assert isinstance(outcome, Timeout)
            assert "'w'" in str(outcome)
    assert dropped


# The name of a tensor determines the rank at which its ring begins.
@pytest.mark.parametrize("name", ["a", "b", "c"])
@pytest.mark.parametrize("sent", [0, 1])
def test_a_rank_that_stops_within_a_step_is_named_also_by_one_that_is_a_step_ahead(name: str, sent: int) -> None:
    """Rank 1 may get all messages of the step except the last one of rank 2, and wait in the next step for rank 0."""
    began = Event()
    from_rank2 = []

    def intercept(source: int, destination: int, payload: bytes) -> bool:
        if source == 2 and began.is_set():
            from_rank2.append(payload)
        return 2 not in (source, destination) or len(from_rank2) <= sent

    def body(engine: _core.Engine) -> None:
        values = np.ones(COUNT, np.float32)
        (tensor,) = engine.declare([spec(name, values, topology="ring", partitions=1)])
        engine.wait(engine.submit(tensor, values, values))
        engine.allgather("one step is made", b"")
        began.set()
        while True:
            operation = engine.submit(tensor, values, values)
            if engine.rank == 2:
                while len(from_rank2) <= sent and not engine.poll(operation):
                    time.sleep(0.001)
                if len(from_rank2) > sent:
                    time.sleep(2.0)
            engine.wait(operation)

    first, second, _ = outcomes(3, body, options={"timeout": 0.8}, intercept=intercept)
    for outcome in (first, second):
        assert isinstance(outcome, Timeout)
        assert re.search("(nothing|no aggregate) from rank 2", str(outcome)), outcome


@pytest.mark.parametrize("change", ["flip", "cut", "extend"])
def test_a_corrupt_payload_is_refused_on_every_rank(change: str) -> None:
    def intercept(source: int, _destination: int, payload: bytes) -> bytes:
        if source != 1 or len(payload) < 20:
            return payload
        if change == "flip":
            return payload[:10] + bytes([payload[10] ^ 4]) + payload[11:]
        return payload[:-1] if change == "cut" else payload + b"x"

    results = outcomes(
        3,
        lambda engine: allreduce(engine, "w", np.linspace(-1, 1, COUNT, dtype=np.float32), codec="onebit"),
        options={"timeout": 5.0},
        intercept=intercept,
    )
    failures = [outcome for outcome in results if isinstance(outcome, BaseException)]
    assert any(isinstance(failure, CorruptPayload) for failure in failures)
    for failure in failures:
        assert isinstance(failure, HipressError)
        assert "'w'" in str(failure)
        assert "rank 1" in str(failure)


@pytest.mark.parametrize("silent", [0, 1, 2, 3])
@pytest.mark.parametrize("topology", ["ps", "ring", "allgather", "hierarchical", "hierarchical(ring)"])
def test_a_silent_rank_is_named_in_every_topology(topology: str, silent: int) -> None:
    """Some ranks wait for ranks that wait for the silent rank: the rank next to the silent rank reports first."""

    def body(engine: _core.Engine) -> None:
        allreduce(engine, "w", np.ones(8192, np.float32), topology=topology, partitions=4)

    def intercept(source: int, destination: int, payload: bytes) -> bool:
        return source != silent

    ends = outcomes(4, body, options={"timeout": 1.0, "hosts": [0, 0, 1, 1]}, intercept=intercept, linger=0.0)
    for rank, end in enumerate(ends):
        if rank != silent:  # after an allgather the silent rank has everything it needs
            assert isinstance(end, Timeout), (rank, end)
            assert f"rank {silent}" in str(end).split("got")[1], (rank, end)
