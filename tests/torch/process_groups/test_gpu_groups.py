# SPDX-License-Identifier: Apache-2.0
"""Averages over groups of tensors on an NVIDIA GPU have the bits and the states of the processor. `make test-gpu` runs
this, and fails without a GPU.

The ranks share the first GPU. Most bytes travel over Gloo, which takes tensors of GPUs, too. NCCL wants a GPU for each
rank of a host, so ranks of a group over NCCL say that they are on different hosts.
"""

from __future__ import annotations

import datetime
import os
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from hipress.torch import ddp
from hipress.torch.process_groups.gpus.side import GpuSide
from tests.compll.emit.cuda.device import require_gpu
from tests.torch.ddp import training
from tests.torch.process_groups import unsent
from tests.torch.process_groups.averages import as_on_the_processor, summed_as_on_the_processor
from tests.torch.process_groups.steps_that_do_not_count import steps_that_do_not_count
from tests.torch.ranks import run

pytestmark = pytest.mark.slow

WORLD = 3


@pytest.fixture(autouse=True)
def _gpu() -> None:
    require_gpu(None if torch.cuda.is_available() else "torch finds no GPU, or was built without CUDA")


def _side() -> GpuSide:
    return GpuSide(torch.device("cuda", 0))


@training.in_process_group
def _as_on_the_processor(rank: int, world: int, topology: str) -> None:
    as_on_the_processor(rank, world, topology, _side)


@pytest.mark.parametrize(
    ("topology", "world"),
    [("ps", WORLD), ("allgather", WORLD), ("ring", WORLD), ("butterfly", 4), ("ps", 1), ("hierarchical", 4)],
)
def test_averages_and_states_are_those_of_the_processor(tmp_path: Path, topology: str, world: int) -> None:
    run(_as_on_the_processor, world, str(tmp_path), world, topology)


@training.in_process_group
def _summed_as_on_the_processor(rank: int) -> None:
    summed_as_on_the_processor(rank, _side)


def test_added_levels_and_states_are_those_of_the_processor(tmp_path: Path) -> None:
    run(_summed_as_on_the_processor, WORLD, str(tmp_path))


@training.in_process_group
def _steps_that_do_not_count(rank: int, topology: str) -> None:
    steps_that_do_not_count(rank, topology, _side)


@pytest.mark.parametrize(("topology", "world"), [("ps", 2), ("allgather", 2), ("hierarchical", 4)])
def test_a_step_that_does_not_count_changes_no_state(tmp_path: Path, topology: str, world: int) -> None:
    run(_steps_that_do_not_count, world, str(tmp_path), topology)


@training.in_process_group
def _go_on(rank: int, world: int, topology: str) -> None:
    unsent.go_on(rank, world, topology, "onebit", _side)


@pytest.mark.parametrize(("topology", "world"), [("ps", 2), ("hierarchical", 4)])
def test_no_residual_is_lost_with_another_codec(tmp_path: Path, topology: str, world: int) -> None:
    run(_go_on, world, str(tmp_path), world, topology)


@training.in_process_group
def _trained_over_gloo(rank: int, place: str, codec: str) -> bytes:
    return _trained(rank, place, codec)


def _trained_over_nccl(folder: str, world: int, codec: str) -> bytes:
    rank = int(os.environ["HIPRESS_RANK"])
    os.environ.update(NCCL_HOSTID=f"rank {rank}", NCCL_SOCKET_IFNAME="lo", NCCL_IB_DISABLE="1")
    torch.cuda.set_device(0)
    store = dist.FileStore(f"{folder}/store", world)
    limit = datetime.timedelta(seconds=60)
    dist.init_process_group("nccl", store=store, rank=rank, world_size=world, timeout=limit)
    try:
        return _trained(rank, "cuda:0", codec)
    finally:
        dist.destroy_process_group()


def _trained(rank: int, place: str, codec: str) -> bytes:
    """The parameters after some steps. An element of the gradient is one value, so it is the same on every device."""
    model = nn.Linear(2000, 50, bias=False)
    with torch.no_grad():
        model.weight.zero_()
    wrapped = DistributedDataParallel(model.to(place), bucket_cap_mb=0.1)
    ddp.compress(wrapped, codec=codec)
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.5)
    for step in range(4):
        optimizer.zero_grad()
        row = torch.randn(1, 2000, generator=torch.Generator().manual_seed(10 * step + rank)).to(place)
        wrapped(row).sum().backward()
        optimizer.step()
    return bytes(model.weight.detach().cpu().numpy().tobytes())


@pytest.mark.parametrize("codec", ["onebit", "int8", "dgc", "thc"])
def test_a_model_of_distributed_data_parallel_gets_the_bits_of_the_processor(tmp_path: Path, codec: str) -> None:
    folders = {place: tmp_path / place.replace(":", "") for place in ("cuda:0", "cpu")}
    for folder in folders.values():
        folder.mkdir()
    on_gpu, on_processor = (run(_trained_over_gloo, 2, str(folder), place, codec) for place, folder in folders.items())
    assert on_gpu == on_processor
    assert len(set(on_gpu)) == 1


@pytest.mark.parametrize(("codec", "world"), [("onebit", 2), ("int8", 4), ("thc", 2)])
def test_a_model_over_nccl_gets_the_bits_of_the_processor(tmp_path: Path, codec: str, world: int) -> None:
    folders = [tmp_path / "nccl", tmp_path / "gloo"]
    for folder in folders:
        folder.mkdir()
    on_gpu = run(_trained_over_nccl, world, str(folders[0]), world, codec)
    on_processor = run(_trained_over_gloo, world, str(folders[1]), "cpu", codec)
    assert on_gpu == on_processor
    assert len(set(on_gpu)) == 1
