# SPDX-License-Identifier: Apache-2.0
"""All ways of averaging over a process group compute on a stand-in for a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from hipress.torch.ddp import group_carrier
from hipress.torch.fsdp import all_gather, reduce_scatter, replicas
from hipress.torch.process_groups import compressing_group
from tests.torch.process_groups.fake_gpu import FakeGpuSide


@contextmanager
def on_a_stand_in() -> Iterator[list[FakeGpuSide]]:
    """Averages over process groups compute on a stand-in for a GPU, each on a side of this list."""
    sides: list[FakeGpuSide] = []

    def side_for(_devices: Any) -> FakeGpuSide:
        sides.append(FakeGpuSide())
        return sides[-1]

    with ExitStack() as patches:
        for module in (group_carrier, replicas, compressing_group, reduce_scatter, all_gather):
            patches.enter_context(mock.patch.object(module, "side_for", side_for))
        yield sides
