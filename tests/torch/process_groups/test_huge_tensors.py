# SPDX-License-Identifier: Apache-2.0
"""Tensors of more elements than a codec encodes at a time: cut, or refused with the tensor's name. Only sizes are
computed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from hipress import _core
from hipress.errors import InvalidArgument
from hipress.torch.process_groups.layout import Compressed, Layout, payload_room
from hipress.torch.process_groups.linked import LinkedAverage
from hipress.torch.process_groups.ranks import Ranks

_HUGE = 3 << 30


@pytest.mark.parametrize("topology", ["ps", "allgather"])
def test_a_huge_tensor_is_cut_so_that_its_codec_takes_each_part(topology: str) -> None:
    tensors = [Compressed("w", _HUGE, _core.create_codec("onebit"), dtype=torch.float32)]
    partitions = Layout(tensors, Ranks(0, 2, topology)).partitions
    assert sum(each.count for each in partitions) == _HUGE
    assert all(each.count <= _core.MOST_ENCODED and not each.raw for each in partitions)
    assert {each.owner for each in partitions} == {0, 1}
    assert [each.first for each in partitions[1:]] == [each.first + each.count for each in partitions[:-1]]


def test_a_huge_shard_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"codec fp16 encodes .* a shard of this rank has 3221225472"):
        payload_room(_core.create_codec("fp16"), _HUGE, torch.float32)


@pytest.mark.parametrize("codec", ["int8_shared", "thc"])
def test_a_sum_of_more_elements_than_its_codec_adds_is_refused(codec: str) -> None:
    average = cast(Any, SimpleNamespace())
    with pytest.raises(InvalidArgument, match=rf"tensor 'w' has {_HUGE} elements, and codec {codec} adds .*codec_for"):
        LinkedAverage.add(average, "w", _core.create_codec(codec), 1, _HUGE, 4)
