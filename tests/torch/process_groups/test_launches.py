# SPDX-License-Identifier: Apache-2.0
"""How many kernels and copies an average starts on a GPU: as many for many tensors as for few. Counted by the stand-in
for the driver."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest
import torch

from hipress.torch.process_groups import GroupAverage, GroupOptions
from hipress.torch.process_groups.dtypes import TensorShape
from tests.core.device.fake_gpus import fake_driver
from tests.torch.ddp import training
from tests.torch.process_groups.fake_gpu import FakeGpuSide
from tests.torch.ranks import run

pytestmark = pytest.mark.slow

#: As the gradients of ResNet-50.
MANY = 161


@training.in_process_group
def _launches(rank: int, codec: str, topology: str, dtype: torch.dtype, number: int) -> int:
    """Of the second step."""
    count = ctypes.CDLL(str(fake_driver())).hipress_test_launches
    shapes = {f"w{each}": TensorShape(1000 + each, dtype, 2) for each in range(number)}
    average = GroupAverage(shapes, None, GroupOptions(codec, topology, min_compress_bytes=0), side=FakeGpuSide())
    before = 0
    for step in range(2):
        before = count()
        generator = torch.Generator().manual_seed(rank)
        tensors = {name: torch.randn(each.count, generator=generator).to(dtype) for name, each in shapes.items()}
        average.start(list(tensors.items()), step).wait()
        average._side.synchronize()
    return int(count() - before)


@pytest.mark.parametrize("topology", ["ps", "ring"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("codec", "most"), [("int8", 40), ("onebit", 60), ("terngrad", 60), ("dgc(ratio=0.05)", 100)])
def test_many_tensors_need_few_launches(
    tmp_path: Path, codec: str, most: int, dtype: torch.dtype, topology: str
) -> None:
    launches = run(_launches, 2, str(tmp_path), codec, topology, dtype, MANY)
    assert max(launches) <= most, launches
