# SPDX-License-Identifier: Apache-2.0
"""A batch can have tensors of different element types, like a bucket of a model that mixes precisions."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import hipress.torch as hp
from hipress.torch.process_groups import GroupAverage, GroupOptions
from hipress.torch.process_groups.average import TensorShape
from tests.torch.ddp import training
from tests.torch.ranks import run

pytestmark = pytest.mark.slow

#: By type: the relative error of rounding to fp16, in which all these tensors travel, or to the type itself.
PRECISION = {torch.float32: 2.0**-11, torch.float64: 2.0**-11, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-8}
COUNT = 3001


def _tensors(rank: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(rank)
    return {str(each): torch.randn(COUNT, generator=generator).to(each) for each in PRECISION}


@training.in_process_group
def _mixed(rank: int, topology: str) -> dict[str, torch.Tensor]:
    """Averages compressed tensors of all types, and a tensor without a codec."""
    options = GroupOptions(
        "fp16", topology, ranks_per_host=2 if topology == "hierarchical" else 0, codec_for={"exact": "none"}
    )
    tensors = {**_tensors(rank), "exact": torch.full((COUNT,), float(rank), dtype=torch.float64)}
    shapes = {name: TensorShape(each.numel(), each.element_size(), 2) for name, each in tensors.items()}
    average = GroupAverage(shapes, None, options)
    whole = {**tensors, str(torch.float32): torch.zeros(COUNT, dtype=torch.int64)}
    with pytest.raises(hp.InvalidArgument, match=r"'torch.float32' has elements of type torch.int64; codecs take"):
        average.start(list(whole.items()), 0)
    average.start(list(tensors.items()), 0).wait()
    return tensors


@pytest.mark.parametrize("topology", ["ps", "allgather", "hierarchical"])
def test_each_tensor_keeps_its_type(tmp_path: Path, topology: str) -> None:
    results = run(_mixed, 2, str(tmp_path), topology)
    given = [_tensors(rank) for rank in range(2)]
    for dtype, precision in PRECISION.items():
        name = str(dtype)
        assert results[0][name].dtype == dtype
        assert torch.equal(results[0][name], results[1][name])
        wanted = (given[0][name].double() + given[1][name].double()) / 2
        # Both ranks' values are rounded once and their average twice; all of them are below 5.
        torch.testing.assert_close(results[0][name].double(), wanted, rtol=0, atol=4 * 5 * precision)
    assert torch.equal(results[0]["exact"], torch.full((COUNT,), 0.5, dtype=torch.float64))
