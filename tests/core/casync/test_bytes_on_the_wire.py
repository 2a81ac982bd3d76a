# SPDX-License-Identifier: Apache-2.0
"""A codec that promises 1/32 of the bytes sends 1/32: the transport counts them."""

from __future__ import annotations

import numpy as np
import pytest

from hipress import _core
from hipress.errors import InvalidArgument
from tests.cases import each
from tests.core.casync.engine_world import LOSSY, run_ranks, spec

HEADER = 32


def sent_per_step(codec: str, count: int, world_size: int, **options: int) -> list[dict[str, int]]:
    """By rank: the transport's counts for the second step of one tensor."""

    def body(engine: _core.Engine) -> dict[str, int]:
        values = np.random.default_rng(engine.rank).standard_normal(count).astype(np.float32)
        (tensor,) = engine.declare([spec("w", values, codec=codec, **options)])
        engine.wait(engine.submit(tensor, values, values))
        engine.allgather("first step", b"")
        before = engine.counters()
        engine.wait(engine.submit(tensor, values, values))
        engine.allgather("second step", b"")
        after = engine.counters()
        return {key: after[key] - before[key] for key in after}

    return run_ranks(world_size, body)


@each("world_size", [2, 3, 4])
def test_none_sends_two_shares_of_the_tensor(world_size: int) -> None:
    count = world_size * 1024 * 64
    for counted in sent_per_step("none", count, world_size, partitions=world_size):
        # A worker sends all partitions except its own; an aggregator sends its partition to every other rank.
        messages = 2 * (world_size - 1)
        assert counted["messages_sent"] == counted["messages_received"] == messages
        share = count * 4 // world_size
        assert counted["bytes_sent"] == counted["bytes_received"] == messages * (share + HEADER)


def test_fp16_sends_half() -> None:
    raw, half = (sent_per_step(codec, 1 << 20, 4) for codec in ("none", "fp16"))
    for full, compressed in zip(raw, half, strict=True):
        assert compressed["bytes_sent"] / full["bytes_sent"] == pytest.approx(0.5, abs=1e-3)


@pytest.mark.parametrize("codec", ["fp16", *LOSSY, "dgc(ratio=0.01)", "terngrad(bitwidth=4)"])
@each("world_size", [1, 2, 3, 4])
def test_every_message_is_a_header_and_what_the_codec_said(codec: str, world_size: int) -> None:
    """A codec that chooses its values may send fewer, but never fewer than 0.7 of the allowed number."""
    part = 1024 * 64
    bound = _core.create_codec(codec).max_encoded_bytes(part)
    for counted in sent_per_step(codec, world_size * part, world_size, partitions=world_size):
        messages = 2 * (world_size - 1)
        assert counted["messages_sent"] == counted["messages_received"] == messages
        for direction in ("bytes_sent", "bytes_received"):
            most = messages * (bound + HEADER)
            least = 0.7 * most if codec.startswith(("dgc", "graddrop")) else most
            assert least <= counted[direction] <= most


@each("count", [(1 << 18) + 1, 1 << 20, 3_000_001])
def test_onebit_sends_a_thirtieth_of_tensors_above_a_megabyte(count: int) -> None:
    raw, onebit = (sent_per_step(codec, count, 4) for codec in ("none", "onebit"))
    assert sum(c["bytes_sent"] for c in onebit) <= sum(c["bytes_sent"] for c in raw) / 30
    for full, compressed in zip(raw, onebit, strict=True):
        assert compressed["bytes_sent"] <= full["bytes_sent"] / 30


@each("count", [0, 1, 2])
def test_what_a_codec_would_enlarge_is_sent_raw(count: int) -> None:
    raw, onebit = (sent_per_step(codec, count, 2) for codec in ("none", "onebit"))
    counted = {"messages_raw_instead": 1, "bytes_raw_instead": 4 * count}
    assert onebit == [{**of_rank, **counted} for of_rank in raw]


def test_small_tensors_are_not_compressed() -> None:
    def body(engine: _core.Engine) -> int:
        values = np.ones(1000, np.float32)
        (tensor,) = engine.declare([spec("w", values, codec="onebit", min_compress_bytes=4096)])
        engine.wait(engine.submit(tensor, values, values))
        engine.allgather("done", b"")
        return engine.counters()["bytes_sent"]

    assert run_ranks(2, body) == [4000 + HEADER] * 2


def test_an_absent_gradient_costs_a_header() -> None:
    def body(engine: _core.Engine) -> int:
        output = np.ones(1024, np.float32)
        (tensor,) = engine.declare([spec("w", output)])
        engine.wait(engine.submit(tensor, None, output))
        engine.allgather("done", b"")
        return engine.counters()["bytes_sent"]

    assert run_ranks(2, body) == [HEADER] * 2


@each("codec", ["dgc(ratio=0.6)", "graddrop(ratio=1)", "topk(ratio=0.7)", "threshold(ratio=0.8)"])
def test_a_codec_that_would_never_be_used_is_refused(codec: str) -> None:
    with pytest.raises(InvalidArgument, match=r"w.*codec .* may need \d+ bytes for 1048576 values, .*never be used"):
        sent_per_step(codec, 1 << 12, 2)


def test_the_codec_with_the_longest_messages_that_help_is_used() -> None:
    for counted in sent_per_step("topk(ratio=0.49)", 1 << 20, 2, partitions=2):
        assert counted["bytes_sent"] < 0.99 * 4 * (1 << 20)
