# SPDX-License-Identifier: Apache-2.0
"""An engine counts its memory, and frees buffers that no recent step needed."""

from __future__ import annotations

import time

import numpy as np
import pytest

from hipress import _core
from tests.core.casync.device_world import Place
from tests.core.casync.engine_world import allreduce, run_ranks, spec

LARGE = 1 << 20


def test_states_and_staging_are_counted() -> None:
    def body(engine: _core.Engine) -> tuple[_core.MemoryStats, _core.MemoryStats]:
        before = engine.memory_stats()
        engine.allgather("looked", b"")  # else a faster rank's messages would be counted
        allreduce(engine, "w", np.ones(LARGE, np.float32), codec="onebit")
        engine.allgather("done", b"")
        return before, engine.memory_stats()

    for before, after in run_ranks(2, body):
        # Scratch memory belongs to the process, so other tests may have left some.
        assert all(value == 0 for name, value in before.items() if name != "scratch_bytes")
        assert after["state_bytes"] >= 4 * LARGE  # the worker's residual
        assert after["pool_bytes_in_use"] == 0
        assert 0 < after["pool_bytes_held"] <= 1.25 * after["pool_peak_bytes_in_use"]


def test_memory_of_devices_is_counted_apart() -> None:
    def body(engine: _core.Engine) -> _core.MemoryStats:
        place = Place(engine, _core.SimulatedDevice())
        values = np.ones(LARGE, np.float32)
        place.finish(place.start(place.declare("w", values, codec="onebit"), values, values))
        return engine.memory_stats()

    for stats in run_ranks(2, body):
        assert stats["device_state_bytes"] >= 4 * LARGE
        assert stats["state_bytes"] == 0
        assert stats["device_pool_bytes_held"] > 0
        assert stats["device_staging_bytes_held"] > LARGE // 8 // 2  # half of the tensor with a bit for each element


def test_staging_of_a_large_tensor_is_given_back() -> None:
    def body(engine: _core.Engine) -> tuple[_core.MemoryStats, _core.MemoryStats]:
        allreduce(engine, "large", np.ones(4 * LARGE, np.float32), codec="fp16")
        large = engine.memory_stats()
        values = np.ones(1000, np.float32)
        tensors = engine.declare([spec(f"small {i}", values, codec="fp16") for i in range(32)])
        for _ in range(200):
            outputs = [values.copy() for _ in tensors]
            for operation in [engine.submit(t, o, o) for t, o in zip(tensors, outputs, strict=True)]:
                engine.wait(operation)
        return large, engine.memory_stats()

    for large, small in run_ranks(2, body):
        assert large["pool_bytes_held"] > LARGE
        assert small["pool_bytes_held"] < large["pool_bytes_held"] / 10
        assert small["pool_peak_bytes_in_use"] == large["pool_peak_bytes_in_use"]


def test_values_that_come_too_early_are_counted() -> None:
    """Rank 1 aggregates some of these tensors, and submits late."""

    def body(engine: _core.Engine) -> tuple[int, int, int]:
        values = np.ones(1000, np.float32)
        tensors = engine.agree("all", [spec(f"w{i}", values) for i in range(20)])
        early = 0
        if engine.rank == 1:
            deadline = time.monotonic() + 10
            while engine.memory_stats()["unexpected_bytes"] == 0 and time.monotonic() < deadline:
                time.sleep(0.01)
            early = engine.memory_stats()["unexpected_bytes"]
        outputs = [values.copy() for _ in tensors]
        for operation in [engine.submit(t, o, o) for t, o in zip(tensors, outputs, strict=True)]:
            engine.wait(operation)
        stats = engine.memory_stats()
        return early, stats["unexpected_bytes"], stats["unexpected_peak_bytes"]

    _, (early, left, peak) = run_ranks(2, body)
    assert early > 0
    assert early % 4000 == 0
    assert left == 0
    assert peak >= early


@pytest.mark.parametrize("collective", ["broadcast", "allreduce"])
def test_nobody_runs_ahead_of_a_slow_rank(collective: str) -> None:
    """A rank that runs ahead would fill the slow rank's memory with the messages of all later steps."""
    steps, size = 30, 4000

    def body(engine: _core.Engine) -> int:
        values = np.ones(size // 4, np.float32)
        (tensor,) = engine.declare([spec("w", values, collective=collective)])
        for _ in range(steps):
            if engine.rank == engine.world_size - 1:
                time.sleep(0.005)
            engine.wait(engine.submit(tensor, values, values))
        return engine.memory_stats()["unexpected_peak_bytes"]

    for peak in run_ranks(4, body):
        assert peak <= 3 * size  # at most one step's message from each other rank
