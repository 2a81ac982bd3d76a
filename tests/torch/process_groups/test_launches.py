# SPDX-License-Identifier: Apache-2.0
"""How many kernels and copies an average starts on a GPU: as many for many tensors as for few. Counted by the stand-in
for the driver."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from hipress.torch.process_groups import GroupAverage, GroupOptions
from hipress.torch.process_groups.dtypes import TensorShape
from tests.core.device.fake_gpus import fake_driver
from tests.tiers import thorough
from tests.torch.ddp import training
from tests.torch.process_groups.fake_gpu import FakeGpuSide
from tests.torch.ranks import run

pytestmark = pytest.mark.slow

#: As the gradients of ResNet-50.
MANY = 161


@training.in_process_group
def _launches(rank: int, codec: str, topology: str, dtype: torch.dtype, number: int) -> int:
    """Of the fifth step: by then the GPU has all lists of tensors, which are the same in every step."""
    count = ctypes.CDLL(str(fake_driver())).hipress_test_launches
    shapes = {f"w{each}": TensorShape(1000 + each, dtype, 2) for each in range(number)}
    average = GroupAverage(shapes, None, GroupOptions(codec, topology, min_compress_bytes=0), side=FakeGpuSide())
    tensors = {name: torch.empty(each.count, dtype=dtype) for name, each in shapes.items()}
    before = 0
    for step in range(5):
        before = count()
        generator = torch.Generator().manual_seed(rank)
        for tensor in tensors.values():  # the same memory in each step, as of DDP's buckets
            tensor.copy_(torch.randn(len(tensor), generator=generator))
        own = [tensor.double() for tensor in tensors.values()]
        average.start(list(tensors.items()), step).wait()
        average._side.synchronize()
    launches = int(count() - before)
    for tensor, values in zip(tensors.values(), own, strict=True):
        dist.all_reduce(values, dist.ReduceOp.AVG)
        assert codec != "int8" or torch.allclose(tensor.double(), values, atol=0.05)
    return launches


@pytest.mark.parametrize("topology", ["ps", thorough("ring")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("codec", "most"), [("int8", 16), ("onebit", 28), ("terngrad", 18), ("dgc(ratio=0.05)", 63)])
def test_many_tensors_need_few_launches(
    tmp_path: Path, codec: str, most: int, dtype: torch.dtype, topology: str
) -> None:
    launches = run(_launches, 2, str(tmp_path), codec, topology, dtype, MANY)

    assert max(launches) <= most, launches


@pytest.mark.thorough
def test_more_tensors_than_one_table_takes(tmp_path: Path) -> None:
    assert max(run(_launches, 2, str(tmp_path), "int8", "ps", torch.float32, 4200)) <= 60
