# SPDX-License-Identifier: Apache-2.0
"""Allgathers whose blocks travel without the zeros at their end."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from hipress import _core
from hipress.errors import CorruptPayload, Mismatch, Unsupported
from tests.cases import each
from tests.core.casync.engine_world import outcomes, run_ranks

HEADER, ROOM = 32, 100
RAW, TRIMMED = _core.FLAG_RAW, _core.FLAG_TRIMMED


def described(world: int, *, trimmed: bool = True, dtype: str = "uint8") -> _core.TensorSpec:
    return _core.TensorSpec(
        "x", collective="allgather", dtype=dtype, count=ROOM, shape="[100]", received=[ROOM] * world, trimmed=trimmed
    )


def block(used: int) -> NDArray[np.uint8]:
    values = np.zeros(ROOM, np.uint8)
    values[:used] = np.arange(1, used + 1)
    return values


@each("world", [1, 2, 3])
def test_blocks_come_back_whole_and_only_what_is_used_travels(world: int) -> None:
    # In each step other ends; zeros before the end; blocks of zeros only, and without a zero at the end.
    used = [[10 * rank + step for rank in range(world)] for step in (3, 0, 60)] + [[0] * world, [ROOM] * world]

    def body(engine: _core.Engine) -> list[tuple[NDArray[np.uint8], int]]:
        (tensor,) = engine.agree("list", [described(world)])
        results = []
        for step, ends in enumerate(used):
            mine = block(ends[engine.rank])
            mine[1] = 0
            gathered = np.full((world, ROOM), 255, np.uint8)
            before = engine.counters()["bytes_sent"]
            engine.wait(engine.submit(tensor, mine, gathered))
            engine.allgather(f"step {step}", b"")
            results.append((gathered, engine.counters()["bytes_sent"] - before))
        return results

    for rank, steps in enumerate(run_ranks(world, body)):
        for ends, (gathered, sent) in zip(used, steps, strict=True):
            for other, end in enumerate(ends):
                expected = block(end)
                expected[1] = 0
                assert np.array_equal(gathered[other], expected)
            size = np.flatnonzero(block(ends[rank]) * (np.arange(ROOM) != 1)).max(initial=-1) + 1
            assert sent == (world - 1) * (HEADER + size)


def test_only_bytes_are_trimmed() -> None:
    with pytest.raises(Unsupported, match="only bytes on the host travel without the zeros"):
        run_ranks(1, lambda engine: engine.agree("list", [described(1, dtype="int32")]))


def test_ranks_agree_on_it() -> None:
    for outcome in outcomes(2, lambda engine: engine.agree("list", [described(2, trimmed=engine.rank == 0)])):
        assert isinstance(outcome, Mismatch)
        assert "without the zeros at the end" in str(outcome)


@each(
    ("flags", "size", "problem"),
    [
        (RAW | TRIMMED, ROOM + 1, "payload size is 101, expected at most 100 elements"),
        (RAW, ROOM, "flags is 0x1, expected elements without the zeros at their end"),
        (TRIMMED, 5, "flags is 0x10, expected only raw elements"),
        (RAW | TRIMMED | _core.FLAG_REFERENCE, 16, "flags is 0x19, expected only raw elements"),
    ],
)
def test_other_messages_are_refused(flags: int, size: int, problem: str) -> None:
    with pytest.raises(CorruptPayload, match=problem):
        _core.unpack_header(_core.pack_header(0, "uint8", ROOM, size, flags), 0, "uint8", ROOM, ROOM, trimmed=True)


def test_no_other_message_is_trimmed() -> None:
    header = _core.pack_header(0, "uint8", ROOM, 7, RAW | TRIMMED)
    assert _core.unpack_header(header, 0, "uint8", ROOM, ROOM, trimmed=True).payload_bytes == 7
    with pytest.raises(CorruptPayload, match="flags is 0x11, expected all elements"):
        _core.unpack_header(header, 0, "uint8", ROOM, ROOM)
