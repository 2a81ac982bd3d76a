# SPDX-License-Identifier: Apache-2.0
"""A process can end while an average is alive. An error that a GPU tells after the last step is not lost: it comes with
a checkpoint, with close(), or in the log."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import hipress.torch as hp
from hipress.torch import ddp, fsdp
from hipress.torch.ddp import group_carrier
from hipress.torch.fsdp import reduce_scatter, replicas
from hipress.torch.process_groups import group_calls
from tests.torch.ddp import training
from tests.torch.process_groups.fake_gpu import FakeGpuSide
from tests.torch.ranks import run

pytestmark = pytest.mark.slow

_PROGRAM = """
import datetime, sys, torch, torch.distributed as dist
from hipress.torch.process_groups import GroupAverage, GroupOptions
from hipress.torch.process_groups.dtypes import TensorShape

store, rank = dist.FileStore(sys.argv[1], 2), int(sys.argv[2])
dist.init_process_group("gloo", store=store, rank=rank, world_size=2, timeout=datetime.timedelta(seconds=30))

def use():
    average = GroupAverage({"a": TensorShape(100_000, torch.float32, 2)}, None, GroupOptions("onebit"))
    average.start([("a", torch.randn(100_000))], 0).wait()
    dist.barrier()
    dist.destroy_process_group()
    if len(sys.argv) > 3:
        sys.average = average

use()
"""


@pytest.mark.parametrize("keeps", [False, True])
def test_a_process_ends_whatever_it_still_holds(tmp_path: Path, keeps: bool) -> None:
    command = [sys.executable, "-c", _PROGRAM, str(tmp_path / "store")]
    more = ["keep"] if keeps else []
    ranks = [subprocess.Popen([*command, str(rank), *more], stderr=subprocess.PIPE) for rank in range(2)]
    for rank in ranks:
        _, errors = rank.communicate(timeout=60.0)
        assert rank.returncode == 0, errors.decode()[-1000:]


_PROGRAM_OF_A_GPU = """
import datetime, sys, torch, torch.distributed as dist
from hipress.torch.process_groups import GroupAverage, GroupOptions, group_calls
from hipress.torch.process_groups.dtypes import TensorShape
from tests.torch.process_groups.fake_gpu import FakeGpuSide

store, rank = dist.FileStore(sys.argv[1], 2), int(sys.argv[2])
dist.init_process_group("gloo", store=store, rank=rank, world_size=2, timeout=datetime.timedelta(seconds=30))
send = group_calls.all_to_all

def damage(group, output, given, *sizes):
    given.view(-1)[0] = 0x41
    return send(group, output, given, *sizes)

def use():
    shapes = {"a": TensorShape(100_000, torch.float32, 2)}
    average = GroupAverage(shapes, None, GroupOptions("onebit", "ps"), side=FakeGpuSide())
    if rank == 0:
        group_calls.all_to_all = damage
    average.start([("a", torch.randn(100_000))], 0).wait()
    dist.barrier()
    dist.destroy_process_group()
    if rank == 0:
        sys.average = average

use()
"""


def test_an_error_of_the_last_step_on_a_gpu_is_in_the_log_when_the_process_ends(tmp_path: Path) -> None:
    """Rank 0 keeps its average until the end, and that of rank 1 is deleted with its function. The exit code is 0, as
    no handler of Python can change it."""
    command = [sys.executable, "-c", _PROGRAM_OF_A_GPU, str(tmp_path / "store")]
    settings = {**os.environ, "PYTHONPATH": os.getcwd()}
    ranks = [
        subprocess.Popen([*command, str(rank)], stderr=subprocess.PIPE, text=True, env=settings) for rank in range(2)
    ]
    for rank in ranks:
        _, errors = rank.communicate(timeout=120.0)
        assert rank.returncode == 0, errors[-1000:]
        assert errors.count("averaging gradients failed in the last step: ") == 1, errors[-1000:]
        assert "of the group" in errors


def _linear() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(40, 200)


def _hook() -> tuple[Any, Any, Any]:
    model = DistributedDataParallel(_linear())
    return ddp.compress(model, "onebit", topology="ps"), model, DistributedDataParallel(_linear())


def _replicas() -> tuple[Any, Any, Any]:
    mesh = init_device_mesh("cpu", (1, 2), mesh_dim_names=("shard", "replicate"))
    model = fully_shard(_linear(), mesh=mesh["shard"])
    state = fsdp.compress_replicas(model, mesh["replicate"].get_group(), "onebit", topology="ps")
    return state, model, DistributedDataParallel(_linear())


def _scatter() -> tuple[Any, Any, Any]:
    mesh = init_device_mesh("cpu", (2,))
    model = fully_shard(_linear(), mesh=mesh)
    return fsdp.compress_reduce_scatter(model, "terngrad"), model, fully_shard(_linear(), mesh=mesh)


def _gradients(model: nn.Module, rank: int) -> list[torch.Tensor]:
    model.zero_grad()
    model(training.batch(rank, 0)[0]).square().mean().backward()
    return [each.grad if type(each.grad) is torch.Tensor else each.grad.to_local() for each in model.parameters()]


@training.in_process_group
def _told_late(rank: int) -> list[tuple[int, int]]:
    """How often the end of each way in raised the error of its last step, before and after it had raised it."""
    send = group_calls.all_to_all

    def damage(group: Any, output: torch.Tensor, given: torch.Tensor, *sizes: list[int]) -> Any:
        given.view(-1)[0] = 0x41
        return send(group, output, given, *sizes)

    def errors(call: Callable[[], Any]) -> int:
        try:
            call()
        except hp.CorruptPayload as error:
            assert "of the group" in str(error)  # noqa: PT017
            return 1
        return 0

    raised = []
    for make, end in ((_hook, "close"), (_replicas, "close"), (_scatter, "state_dict"), (_scatter, "close")):
        with pytest.MonkeyPatch.context() as patch:
            for module in (group_carrier, replicas, reduce_scatter):
                patch.setattr(module, "side_for", lambda _: FakeGpuSide())
            state, model, plain = make()
            patch.setattr(group_calls, "all_to_all", damage if rank == 0 else send)
            _gradients(model, rank)
        first = errors(getattr(state, end))
        raised.append((first, errors(state.close) + errors(state.close)))
        if make is not _scatter:
            with pytest.raises(hp.NotInitialized, match="was closed"):
                state.state_dict()
        for found, wanted in zip(_gradients(model, rank), _gradients(plain, rank), strict=True):
            assert torch.equal(found, wanted)
        dist.barrier()
    return raised


def test_an_error_of_the_last_step_on_a_gpu_comes_once_with_a_checkpoint_or_close(tmp_path: Path) -> None:
    sender, receiver = run(_told_late, 2, str(tmp_path))
    assert receiver == [(1, 0)] * 4
    assert sender == [(1, 0)] * 2 + [(0, 0)] * 2  # of a reduce-scatter only the receiver has a result


def test_all_groups_of_replicas_are_closed_also_if_one_has_an_error() -> None:
    closed = []

    class Group:
        def close(self) -> None:
            closed.append(self)
            raise hp.CorruptPayload("of the last step")

    groups: Any = [Group(), Group()]
    with pytest.raises(hp.CorruptPayload):
        fsdp.HybridState(dict.fromkeys(groups, ())).close()
    assert closed == groups
