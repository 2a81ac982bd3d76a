# SPDX-License-Identifier: Apache-2.0
"""Payloads that change on their way, under every topology. The ranks are threads, because no test can change a message
between processes."""

from __future__ import annotations

import gc
import os
import time

import numpy as np
import pytest

from hipress import _core
from hipress.errors import CorruptPayload, HipressError
from tests.core.casync.engine_world import allreduce, outcomes

pytestmark = pytest.mark.slow

COUNT = 20_000
DEADLINE = 5.0


def held() -> tuple[int, int]:
    """The numbers of threads and of descriptors of this process."""
    return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))


def synchronise_corrupted(topology: str, codec: str) -> None:
    def intercept(source: int, _destination: int, payload: bytes) -> bytes:
        if source != 1 or len(payload) < 100:
            return payload
        # Raw gradients have no checksum unless the user asks for one, and within a host all gradients are raw. Only
        # their length can be wrong.
        if codec == "none" or topology == "hierarchical":
            return payload[:-4]
        return payload[:50] + bytes([payload[50] ^ 1]) + payload[51:]

    def body(engine: _core.Engine) -> None:
        values = np.linspace(-1, 1, COUNT, dtype=np.float32)
        allreduce(engine, "w", values, codec=codec, topology=topology)

    start = time.monotonic()
    results = outcomes(3, body, options={"timeout": DEADLINE}, intercept=intercept, linger=0.5)
    assert time.monotonic() - start < 2 * DEADLINE
    failures = [result for result in results if result is not None]
    assert any(isinstance(failure, CorruptPayload) for failure in failures)
    for failure in failures:
        assert isinstance(failure, HipressError)
        assert "'w'" in str(failure)
        assert "rank 1" in str(failure)


@pytest.mark.parametrize("codec", ["none", "onebit"])
@pytest.mark.parametrize("topology", ["ps", "ring", "allgather", "hierarchical"])
def test_a_corrupt_payload_fails_every_rank_that_needs_it(topology: str, codec: str) -> None:
    before = held()
    synchronise_corrupted(topology, codec)
    gc.collect()  # the tracebacks of the errors hold frames, and the frames hold the engines
    end = time.monotonic() + 5.0
    while held() > before and time.monotonic() < end:
        time.sleep(0.02)
    threads, descriptors = held()
    assert threads <= before[0]
    assert descriptors <= before[1]
