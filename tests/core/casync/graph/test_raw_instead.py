# SPDX-License-Identifier: Apache-2.0
"""A tensor with a codec travels raw only for a stated reason, and is counted; a huge one is cut or refused."""

from __future__ import annotations

import numpy as np
import pytest

from hipress import _core
from hipress.errors import InvalidArgument
from tests.core.casync.engine_world import gradients, run_ranks, spec

_HUGE = 3 << 30


def _huge(codec: str, **options: object) -> _core.TensorSpec:
    return _core.TensorSpec("w", dtype="float32", count=_HUGE, shape=str([_HUGE]), codec=codec, **options)


@pytest.mark.parametrize("codec", ["onebit", "int8", "fp16", "topk", "dgc"])
@pytest.mark.parametrize("partitions", [0, 1, 2])
def test_a_huge_tensor_is_cut_so_that_its_codec_takes_each_part(codec: str, partitions: int) -> None:
    # Without pipelining the engine sets no other limit.
    parts = _core.planned_partitions(_huge(codec, partitions=partitions), 2, partition_bytes=1 << 50)
    assert sum(count for count, _ in parts) == _HUGE
    assert all(count <= _core.MOST_ENCODED and not raw for count, raw in parts)


def test_a_huge_tensor_without_a_codec_is_not_cut() -> None:
    assert _core.planned_partitions(_huge("none", partitions=1), 2) == [(_HUGE, True)]


@pytest.mark.parametrize("codec", ["int8_shared", "thc"])
def test_a_sum_of_more_elements_than_its_codec_adds_is_refused(codec: str) -> None:
    with pytest.raises(InvalidArgument, match=rf"tensor 'w' has {_HUGE} elements, and codec {codec} adds .*codec_for"):
        _core.planned_partitions(_huge(codec), 2)


def test_what_travels_without_its_codec_is_counted() -> None:
    values = list(gradients(2, 50_000))

    def body(engine: _core.Engine) -> tuple[list[bool], dict[str, int]]:
        how = [{"codec": "onebit"}, {"codec": "onebit", "min_compress_bytes": 1 << 20}, {"codec": "none"}]
        handles = engine.declare([spec(f"w{index}", values[0], **each) for index, each in enumerate(how)])
        for handle in handles:
            engine.wait(engine.submit(handle, values[engine.rank].copy(), np.zeros_like(values[0])))
        return engine.travel_raw(handles), engine.counters()

    for raw, counters in run_ranks(2, body):
        assert raw == [False, True, True]
        # Each rank sends half of the tensor, and gives back the sum of the other half.
        assert counters["bytes_raw_instead"] == values[0].nbytes
        assert counters["messages_raw_instead"] == 2
