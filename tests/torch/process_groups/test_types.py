# SPDX-License-Identifier: Apache-2.0
"""A batch can have tensors of different element types, like a bucket of a model that mixes precisions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import hipress.torch as hp
from hipress.torch.process_groups import GroupAverage, GroupOptions, group_calls
from hipress.torch.process_groups.dtypes import TensorShape, shape_of
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
    shapes = {name: TensorShape(each.numel(), each.dtype, 2) for name, each in tensors.items()}
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


#: By type: a value that the sum of the ranks' values 1 and 1 + 2 * fine needs, and float32 or the type lacks.
FINE = {torch.float32: 2.0**-23, torch.float64: 2.0**-40, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}


def _fine(rank: int, dtype: torch.dtype) -> torch.Tensor:
    return (1 + FINE[dtype] * (torch.arange(COUNT, dtype=torch.float64) % 50 + 3 * rank)).to(dtype)


@training.in_process_group
def _exact(rank: int, topology: str, world: int) -> tuple[dict[str, torch.Tensor], int, int]:
    """Averages of tensors without a codec beside one with a codec, the bytes that this rank gave to collectives, and
    how many these were."""
    hosts = world // 2 if topology == "hierarchical" else 0
    tensors = {str(dtype): _fine(rank, dtype) for dtype in FINE}
    tensors["complex"] = torch.complex(_fine(rank, torch.float64), -_fine(rank, torch.float64))
    exactly = dict.fromkeys(tensors, "none")
    tensors["compressed"] = torch.randn(COUNT)
    options = GroupOptions("int8", topology, ranks_per_host=hosts, compress_vectors=True, codec_for=exactly)
    average = GroupAverage({name: shape_of(each) for name, each in tensors.items()}, None, options)
    sent = calls = 0

    def counting(collective: Any) -> Any:
        def called(group: Any, *given: Any) -> Any:
            nonlocal sent, calls
            # all_reduce(group, tensor); all_to_all(group, output, input, ...), and so exchange()
            values = given[0] if len(given) == 1 else given[1]
            sent += values.numel() * values.element_size()
            calls += 1
            return collective(group, *given)

        return called

    with pytest.MonkeyPatch.context() as patch:
        for name in ("all_reduce", "exchange", "all_to_all"):
            patch.setattr(group_calls, name, counting(getattr(group_calls, name)))
        average.start(list(tensors.items()), 0).wait()
    return tensors, sent, calls


@pytest.mark.parametrize(
    ("topology", "world"), [("ps", 3), ("allgather", 2), ("auto", 2), ("allgather", 3), ("hierarchical", 4)]
)
def test_exact_values_are_averaged_in_their_type_and_take_its_bytes(tmp_path: Path, topology: str, world: int) -> None:
    results = run(_exact, world, str(tmp_path), topology, world)
    for dtype in FINE:
        found = results[0][0][str(dtype)]
        assert found.dtype == dtype
        given = [_fine(rank, dtype) for rank in range(world)]
        wanted = torch.stack([each.double() for each in given]).sum(0) / world
        if topology in ("ps", "auto") and dtype.itemsize == 2:
            # As the engine: added in float32, rounded once.
            total = sum((each.float() for each in given[1:]), given[0].float())
            assert torch.equal(found, (total * (1 / world)).to(dtype))
        # Other sums are the process group's own, in the type.
        rounding = 2.0**-52 if dtype == torch.float64 else FINE[dtype]
        torch.testing.assert_close(found.double(), wanted, rtol=0, atol=world * rounding)
        for other in results[1:]:
            assert torch.equal(other[0][str(dtype)], found)
    parts = torch.view_as_real(results[0][0]["complex"])
    assert torch.equal(parts[:, 0], results[0][0]["torch.float64"])
    assert torch.equal(parts[:, 1], -results[0][0]["torch.float64"])
    exact = COUNT * (4 + 8 + 2 + 2 + 16)
    way = "allgather" if topology == "auto" else topology
    compressed = {"ps": 2 * 1.1 * COUNT, "allgather": 2 * 1.1 * COUNT, "hierarchical": 4 * COUNT + 2 * COUNT}[way]
    # ps sends all shares but the own one, and the average of the own one to all others: twice (world - 1) / world.
    # hierarchical: all values within the host, then a share of them to the other host and its average back.
    most = {"ps": 2 * (world - 1) / world * exact, "allgather": exact, "hierarchical": 2 * exact}[way]
    for _, sent, calls in results:
        assert sent <= most + compressed + 5000
        # Between two ranks all values travel in one message.
        assert calls == 1 or topology != "auto"
