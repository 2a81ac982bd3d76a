# SPDX-License-Identifier: Apache-2.0
"""Small messages travel in bundles, and only the network sees a difference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hipress import _core
from hipress.errors import CorruptPayload, HipressError, InvalidArgument
from tests.core.casync.engine_world import outcomes, run_ranks, spec

HEADER = 32
TENSORS = 60
COUNT = 500


def step(engine: _core.Engine, **options: Any) -> tuple[list[bytes], dict[str, int]]:
    """The results of many small tensors that are all in flight at once, and the counters."""
    generator = np.random.default_rng(engine.rank)
    values = [generator.standard_normal(COUNT).astype(np.float32) for _ in range(TENSORS)]
    specs = [spec(f"w{i}", value, priority=i % 7, **options) for i, value in enumerate(values)]
    tensors = engine.agree("all", specs)
    operations = [engine.submit(tensor, value, value) for tensor, value in zip(tensors, values, strict=True)]
    for operation in operations:
        engine.wait(operation)
    engine.allgather("done", b"")
    return [value.tobytes() for value in values], engine.counters()


@pytest.mark.parametrize("codec", ["none", "onebit"])
@pytest.mark.parametrize("world_size", [2, 3])
def test_bundles_change_neither_values_nor_counters(world_size: int, codec: str) -> None:
    def run(**options: Any) -> list[tuple[list[bytes], dict[str, int]]]:
        return run_ranks(world_size, lambda engine: step(engine, codec=codec), options=options)

    alone, together = run(bundle_bytes=0), run(bundle_bytes=1 << 16)
    for (values, counted), (same_values, same_counted) in zip(alone, together, strict=True):
        assert values == same_values
        assert counted.pop("bundles_sent") == 0
        same_counted.pop("bundles_sent")
        assert counted == same_counted
    # While a message is on its way, more tensors become ready; how many depends on the threads.
    assert sum(run(bundle_bytes=1 << 16)[rank][1]["bundles_sent"] for rank in range(world_size)) > 0


def test_a_bundle_has_no_more_than_it_may_have() -> None:
    sizes: list[int] = []

    def intercept(_source: int, _destination: int, bundle: bytes) -> bool:
        sizes.append(len(bundle))
        return True

    piece = 48 + 4 * COUNT
    run_ranks(2, step, options={"bundle_bytes": 4 * piece + 10}, intercept_bundle=intercept)
    assert sizes
    assert max(sizes) <= 4 * piece
    assert all(size % piece == 0 and size >= 2 * piece for size in sizes)


def test_larger_messages_go_alone() -> None:
    options = {"bundle_message_bytes": 4 * COUNT - 1}
    for _, counted in run_ranks(2, step, options=options):
        assert counted["bundles_sent"] == 0


@pytest.mark.parametrize("change", ["cut", "extend", "size", "drop"])
def test_a_bad_bundle_is_an_error_on_every_rank(change: str) -> None:
    def intercept(source: int, _destination: int, bundle: bytes) -> bytes | bool:
        if source != 1:
            return True
        if change == "size":  # the payload size of the first message
            return bundle[:15] + b"\xff" + bundle[16:]
        return {"cut": bundle[:-1], "extend": bundle + b"x", "drop": False}[change]

    results = outcomes(2, step, options={"timeout": 1.0}, intercept_bundle=intercept)
    assert all(isinstance(result, HipressError) for result in results)
    if change != "drop":
        assert any(isinstance(result, CorruptPayload) for result in results)
        assert any("rank 1" in str(result) and "bundle" in str(result) for result in results)


def test_bundles_that_no_receiver_takes_are_refused_at_once() -> None:
    with pytest.raises(InvalidArgument, match="bundles of 33554432 bytes"):
        _core.make_local_engines(2, {"bundle_bytes": 32 << 20})
