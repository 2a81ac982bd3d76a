# SPDX-License-Identifier: Apache-2.0
"""What compressed averages open they close: when their model is gone, and by close()."""

from __future__ import annotations

import gc
import operator
import os
import time
import weakref
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
from hipress import runtime
from hipress.torch import ddp, fsdp
from hipress.torch.process_groups import BackendOptions, GroupAverage, GroupOptions, gradients, group_calls
from hipress.torch.process_groups.dtypes import TensorShape
from tests.tiers import thorough
from tests.torch.ddp import training
from tests.torch.process_groups.fake_gpu import FakeGpuSide
from tests.torch.ranks import run

pytestmark = pytest.mark.slow


def _step(model: nn.Module, rank: int, step: int = 0) -> None:
    model(training.batch(rank, step)[0]).square().mean().backward()


def _hook(rank: int, **options: Any) -> None:
    model = DistributedDataParallel(nn.Linear(40, 100))
    ddp.compress(model, "onebit", **options)
    _step(model, rank)


def _replicas(rank: int) -> None:
    model = fully_shard(nn.Linear(40, 100), mesh=_mesh("shard"))
    fsdp.compress_replicas(model, dist.group.WORLD, "onebit")
    _step(model, rank)


def _scatter(rank: int) -> None:
    model = fully_shard(nn.Linear(40, 200), mesh=_mesh("replicate"))
    fsdp.compress_reduce_scatter(model, "fp16")
    _step(model, rank)


def _backend(rank: int) -> None:
    group = dist.new_group(backend="hipress", pg_options=BackendOptions("onebit"))
    with gradients("g"):
        dist.all_reduce(torch.randn(4000), group=group)
    dist.destroy_process_group(group)


def _diloco(rank: int, **options: Any) -> None:
    net = nn.Linear(40, 100)
    inner = torch.optim.SGD(net.parameters(), lr=0.1)
    diloco = hp.DiLoCo(net, inner, sync_every=1, **options)
    _step(net, rank)
    inner.step()
    diloco.detach()


def _distributed_optimizer(rank: int) -> None:
    net = nn.Linear(40, 100)
    optimizer = hp.DistributedOptimizer(
        torch.optim.SGD(net.parameters(), lr=0.1), net.named_parameters(), codec="onebit"
    )
    _step(net, rank)
    optimizer.step()


def _onebit_adam(rank: int, **options: Any) -> None:
    net = nn.Linear(40, 100)
    optimizer = hp.optim.OneBitAdam(net.named_parameters(), freeze_step=1, **options)
    for step in range(2):
        _step(net, rank, step)
        optimizer.step()


_meshes: list[Any] = []


def _mesh(dimension: str) -> Any:
    """A dimension of a mesh, which keeps its groups until the process ends."""
    if not _meshes:
        _meshes.append(init_device_mesh("cpu", (1, 2), mesh_dim_names=("shard", "replicate")))
    return _meshes[0][dimension]


def _open() -> tuple[int, int, int]:
    """The numbers of files, threads, and states of codecs in the engine."""
    gc.collect()
    states = len(runtime.current().engine.states()) if hp.is_initialized() else 0
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")), states


@training.in_process_group
def _many(rank: int, make: Callable[..., None], options: dict[str, Any], models: int) -> Any:
    _meshes.clear()
    group = options.pop("over", None)
    if group is None:
        hp.init()
    elif group == "group":
        options["group"] = dist.group.WORLD
    for _ in range(3):
        make(rank, **options)
    dist.barrier()
    before = _open()
    for _ in range(models - 3):
        make(rank, **options)
    dist.barrier()
    # A stage's thread ends a moment after its average, and so do those of Gloo, one of which may be closing a file.
    most = before[0] + 1, before[1] + 1, before[2]
    end = time.monotonic() + 20
    while any(map(operator.gt, after := _open(), most)) and time.monotonic() < end:
        time.sleep(0.05)
    assert all(map(operator.le, after, most)), (before, after)


#: How a program begins to use HiPress: over which carrier, and in which groups.
_WAYS: dict[str, tuple[Callable[..., None], dict[str, Any]]] = {
    "hook": (_hook, {"over": "own"}),
    "hook, hierarchical": (_hook, {"over": "own", "topology": "hierarchical", "ranks_per_host": 1}),
    "hook over the engine": (_hook, {"carrier": "hipress"}),
    "replicas": (_replicas, {"over": "own"}),
    "reduce-scatter": (_scatter, {"over": "own"}),
    "backend": (_backend, {"over": "own"}),
    "DistributedOptimizer": (_distributed_optimizer, {}),
    "OneBitAdam": (_onebit_adam, {}),
    "OneBitAdam over a group": (_onebit_adam, {"over": "group"}),
    "DiLoCo": (_diloco, {"codec": "onebit"}),
    "DiLoCo over a group": (_diloco, {"over": "group", "codec": "onebit"}),
    "SparseLoCo": (_diloco, {"preset": "sparseloco"}),
    "SparseLoCo over a group": (_diloco, {"over": "group", "preset": "sparseloco"}),
}


#: Of these a model costs milliseconds; others make groups, or look for a loss scaler among all objects.
_QUICK = ("DiLoCo", "SparseLoCo")
_SHORT = [(way, 5) for way in _WAYS if way not in (*_QUICK, "hook, hierarchical")]
_LONG = [((way, 200) if way in _QUICK else thorough(way, 200)) for way in _WAYS]


@pytest.mark.parametrize(("way", "models"), [*_SHORT, *_LONG])
def test_models_that_are_gone_leave_no_threads_files_and_states(tmp_path: Path, way: str, models: int) -> None:
    run(_many, 2, str(tmp_path), *_WAYS[way], models)


def test_two_hundred_models_in_one_process(tmp_path: Path) -> None:
    run(_many, 1, str(tmp_path), *_WAYS["hook"], 200)


def _gradients(model: nn.Module) -> bytes:
    whole = [each.grad if type(each.grad) is torch.Tensor else each.grad.to_local() for each in model.parameters()]
    return b"".join(each.numpy().tobytes() for each in whole)


@training.in_process_group
def _closed_hook(rank: int, options: dict[str, Any]) -> tuple[bytes, bytes]:
    if options.get("carrier") == "hipress":
        hp.init()
    results = []
    for hooked in (False, True):
        torch.manual_seed(0)
        model = DistributedDataParallel(training.Net())
        if hooked:
            state = ddp.compress(model, "onebit", **options)
            carrier = weakref.ref(state._carrier)
            _step(model, rank)
            before = _open()
            state.close()
            state.close()
            assert carrier() is None
            assert _open()[1] < before[1]
            with pytest.raises(hp.NotInitialized, match=r"call state_dict\(\) before close"):
                state.state_dict()
            model.zero_grad()
        _step(model, rank, 1)
        if hooked:
            assert state.steps == 2
        results.append(_gradients(model))
    return results[0], results[1]


@pytest.mark.parametrize("options", [{}, {"carrier": "hipress"}], ids=["group", "hipress"])
def test_after_close_a_model_trains_as_without_the_hook(tmp_path: Path, options: dict[str, Any]) -> None:
    for plain, closed in run(_closed_hook, 2, str(tmp_path), options):
        assert plain == closed


@training.in_process_group
def _closed_fsdp(rank: int) -> None:
    def net(mesh: Any) -> nn.Module:
        torch.manual_seed(0)
        return fully_shard(nn.Linear(40, 200), mesh=mesh)

    rows, both = init_device_mesh("cpu", (2, 1), mesh_dim_names=("rep", "shard")), init_device_mesh("cpu", (2,))
    hybrid = {"rep": ("hipress", BackendOptions("onebit"))}
    over = init_device_mesh("cpu", (2, 1), mesh_dim_names=("rep", "shard"), backend_override=hybrid)
    ways: list[tuple[Any, Any, Callable[[Any], Any]]] = [
        (rows["shard"], rows, lambda net: fsdp.compress_replicas(net, rows["rep"].get_group(), "onebit")),
        (both, both, lambda net: fsdp.compress_reduce_scatter(net, "fp16")),
        (both, both, lambda net: fsdp.compress_all_gather(net, "fp16")),
        (over, rows, fsdp.compress_hybrid),
    ]
    for mesh, plain_mesh, compress in ways:
        plain, model = net(plain_mesh), net(mesh)
        state = compress(model)
        _step(model, rank)
        state.close()
        state.close()
        model.zero_grad()
        _step(model, rank, 1)
        _step(plain, rank, 1)
        assert _gradients(model) == _gradients(plain)
        if isinstance(state, fsdp.ReduceScatterState):
            assert state.state_dict() == {"steps": [1]}
        elif isinstance(state, fsdp.AllGatherState):
            assert state.state_dict() == {"steps": [0]}
        else:
            with pytest.raises(hp.NotInitialized, match="before close"):
                state.state_dict()


def test_after_close_fsdp2_averages_exactly(tmp_path: Path) -> None:
    run(_closed_fsdp, 2, str(tmp_path))


@training.in_process_group
def _closed_on_a_gpu(rank: int, kept: bool) -> None:
    """Uses averages one after the other. `kept`: torch keeps their groups, as those of NCCL."""
    before = group_calls._made_here
    group_calls._made_here = set() if kept else before
    try:
        groups = []
        for number in range(4):
            shapes, options = {"a": TensorShape(5000, torch.float32, 2)}, GroupOptions("onebit")
            average = GroupAverage(shapes, dist.group.WORLD, options, side=FakeGpuSide())
            for step in range(2):
                tensor = torch.full((5000,), rank + number + 1.0)
                average.start([("a", tensor)], step).wait()
                average._side.synchronize()
                assert torch.equal(tensor, torch.full((5000,), number + 1.5))
            average.close()
            average.close()
            with pytest.raises(hp.NotInitialized, match="was closed"):
                average.start([("a", tensor)], 2)
            groups.append(len(dist.distributed_c10d._world.pg_names))
    finally:
        group_calls._made_here = before
    assert groups == [3 if kept else 1] * 4


@pytest.mark.parametrize("kept", [thorough(False), True])
def test_averages_on_a_gpu_are_closed_and_their_groups_used_again(tmp_path: Path, kept: bool) -> None:
    run(_closed_on_a_gpu, 2, str(tmp_path), kept)


@training.in_process_group
def _memory_of_a_gpu(_rank: int) -> list[tuple[int, int]]:
    """The blocks of the GPU's memory, with each average and after it."""
    blocks = []
    for number in range(10):
        shapes, side = {"a": TensorShape(5000, torch.float32, 2)}, FakeGpuSide()
        average = GroupAverage(shapes, dist.group.WORLD, GroupOptions("onebit"), side=side)
        average.start([("a", torch.ones(5000))], 0).wait()
        side.synchronize()
        used = side.core.blocks
        if number % 2:
            average.close()
        del average
        gc.collect()
        blocks.append((used, side.core.blocks))
    return blocks


@pytest.mark.thorough
def test_averages_that_are_gone_leave_no_memory_of_a_gpu(tmp_path: Path) -> None:
    for blocks in run(_memory_of_a_gpu, 2, str(tmp_path)):
        assert blocks[3:] == blocks[1:2] * 7, blocks
        assert blocks[1][1] < blocks[1][0]
