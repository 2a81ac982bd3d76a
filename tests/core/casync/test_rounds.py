# SPDX-License-Identifier: Apache-2.0
"""With link rounds only the network sees a difference, and a lost coordinator stops no rank."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from hipress import _core
from hipress.errors import InvalidArgument, PeerLost
from tests.core.casync.engine_world import outcomes, run_ranks, spec

TENSORS = 6
COUNT = 20_000
WAYS = {"rounds": {"rounds": True}, "coordinator": {"coordinator": "rank0"}}


def steps(engine: _core.Engine, **options: Any) -> tuple[list[bytes], dict[str, int]]:
    """The results of two steps of some tensors, which this rank submits in its own order, and the counters."""
    generator = np.random.default_rng(engine.rank)
    values = [generator.standard_normal(COUNT + index).astype(np.float32) for index in range(TENSORS)]
    specs = [spec(f"w{i}", value, priority=i % 3, partitions=4, **options) for i, value in enumerate(values)]
    tensors = engine.agree("all", specs)
    for step in range(2):
        order = np.random.default_rng([engine.rank, step]).permutation(TENSORS)
        for operation in [engine.submit(tensors[i], values[i], values[i]) for i in order]:
            engine.wait(operation)
    engine.allgather("done", b"")
    return [value.tobytes() for value in values], engine.counters()


@pytest.mark.parametrize("way", list(WAYS))
@pytest.mark.parametrize("codec", ["none", "onebit"])
@pytest.mark.parametrize("topology", ["ps", "ring", "allgather", "hierarchical", "hierarchical(ring)"])
@pytest.mark.parametrize("world_size", [3, 4])
def test_rounds_change_neither_values_nor_what_is_sent(world_size: int, topology: str, codec: str, way: str) -> None:
    hosts = [rank // 2 for rank in range(world_size)] if "hierarchical" in topology else []
    common = {"hosts": hosts, "bundle_message_bytes": 500, "round_bytes": 10_000}

    def run(**options: Any) -> list[tuple[list[bytes], dict[str, int]]]:
        return run_ranks(
            world_size,
            lambda engine: steps(engine, codec=codec, topology=topology),
            options={**common, **options},
        )

    without, within = run(), run(**WAYS[way])
    for (values, counted), (same_values, same_counted) in zip(without, within, strict=True):
        assert values == same_values
        for name in ("bytes_sent", "bytes_received", "messages_sent", "messages_received"):
            assert counted[name] == same_counted[name]
        assert counted["rounds"] == 0
    assert sum(counted["rounds"] for _, counted in within) > 0
    if way == "rounds":
        assert all(counted["rounds_unplanned"] == 0 for _, counted in within)


def test_two_ranks_have_nothing_to_choose() -> None:
    for _, counted in run_ranks(2, steps, options={"rounds": True, "bundle_message_bytes": 1000}):
        assert counted["rounds"] == 0


def test_small_messages_do_not_wait_for_rounds() -> None:
    for _, counted in run_ranks(3, steps, options={"rounds": True, "bundle_message_bytes": 1 << 20}):
        assert counted["rounds"] == 0


def test_the_coordinator_is_one_of_two() -> None:
    with pytest.raises(InvalidArgument, match="coordinator 'rank1' does not exist; choose none or rank0"):
        _core.make_local_engines(2, {"coordinator": "rank1"})


@pytest.mark.parametrize("lost", [0, 1])
def test_a_lost_rank_is_an_error_also_if_it_plans_the_rounds(lost: int) -> None:
    def body(engine: _core.Engine) -> float:
        (tensor,) = engine.agree("all", [spec("w", values := np.ones(COUNT, np.float32))])
        engine.wait(engine.submit(tensor, values, values))
        if engine.rank == lost:
            return 0.0
        start = time.monotonic()
        with pytest.raises(PeerLost, match=f"rank {lost}"):
            engine.wait(engine.submit(tensor, values, values))
        return time.monotonic() - start

    options = {**WAYS["coordinator"], "bundle_message_bytes": 1000, "timeout": 20.0}
    for rank, end in enumerate(outcomes(3, body, options=options, linger=0.0)):
        assert isinstance(end, float), (rank, end)
        assert end < 10.0
