# SPDX-License-Identifier: Apache-2.0
"""The backend "hipress" compresses gradients, and leaves all other collectives to Gloo."""

from __future__ import annotations

import datetime
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel

import hipress.torch as hp
from hipress.torch import fsdp
from hipress.torch.process_groups import (
    BackendOptions,
    CompressingGroup,
    GroupOptions,
    backend,
    configure,
    gradients,
)
from tests.torch.ddp import training
from tests.torch.ranks import run

pytestmark = pytest.mark.slow


def _group(codec: str, **options: Any) -> CompressingGroup:
    group = dist.new_group(backend="hipress", pg_options=BackendOptions(codec, **options))
    assert isinstance(group, CompressingGroup)
    return group


def _net(mesh: Any, **options: Any) -> nn.Sequential:
    torch.manual_seed(0)
    blocks = [nn.Sequential(nn.Linear(40, 2000), nn.ReLU(), nn.Linear(2000, 40)) for _ in range(2)]
    net = nn.Sequential(*blocks, nn.LayerNorm(40), nn.Linear(40, 1))
    for block in net[:2]:
        fully_shard(block, mesh=mesh, **options)
    return fully_shard(net, mesh=mesh, **options)


def _train(net: nn.Module, rank: int, steps: range) -> None:
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for step in steps:
        inputs, wanted = training.batch(rank, step)
        optimizer.zero_grad()
        (net(inputs) - wanted).square().mean().backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()


def _whole(net: nn.Module) -> np.ndarray[Any, Any]:
    return np.concatenate([each.full_tensor().detach().float().numpy().ravel() for each in net.parameters()])


def _mesh(codec: str | None) -> Any:
    names = ("rep", "shard")
    if codec is None:
        return init_device_mesh("cpu", (2, 2), mesh_dim_names=names)
    chosen = {"rep": ("hipress", BackendOptions(codec))}
    return init_device_mesh("cpu", (2, 2), mesh_dim_names=names, backend_override=chosen)


@training.in_process_group
def _hsdp(rank: int, codec: str, mixed: bool) -> tuple[Any, Any, int]:
    """The parameters of native HSDP with the backend and without it, and the bytes that the backend has sent."""
    precision = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
    options = {"mp_policy": precision} if mixed else {}
    results, sent = [], 0
    for each in (codec, None):
        mesh = _mesh(each)
        net = _net(mesh, **options)
        if each is not None:
            state = fsdp.compress_hybrid(net)
        _train(net, rank, range(5))
        results.append(_whole(net))
        if each is not None:
            sent = state.sent_bytes
    return results[0], results[1], sent


@pytest.mark.parametrize("mixed", [False, True])
def test_hsdp_without_a_codec_is_hsdp_to_the_bit(tmp_path: Path, mixed: bool) -> None:
    for net, alone, sent in run(_hsdp, 4, str(tmp_path), "none", mixed):
        np.testing.assert_array_equal(net, alone)
        assert sent == 0


@pytest.mark.parametrize("mixed", [False, True])
def test_hsdp_with_onebit_sends_a_25th_and_keeps_replicas_identical(tmp_path: Path, mixed: bool) -> None:
    results = run(_hsdp, 4, str(tmp_path), "onebit", mixed)
    for net, alone, sent in results:
        np.testing.assert_array_equal(net, results[0][0])
        assert 0 < np.abs(net - alone).max() < 0.05
        # The matrices of both blocks are compressed; the last one is smaller than 4096 bytes. With ps a rank of two
        # sends half of a shard and half of the average.
        elements = 2 * 2 * 40 * 2000 // 2
        assert elements * 5 / 8 < sent <= 4 * elements * 5 / 25


class _Counted:
    """Counts the calls that reach Gloo."""

    def __init__(self, group: CompressingGroup) -> None:
        self.inner, self.calls = group._inner, 0
        group._inner = self

    def allreduce(self, *arguments: Any) -> Any:
        self.calls += 1
        return self.inner.allreduce(*arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@training.in_process_group
def _passed_on(rank: int) -> None:
    group = _group("onebit", min_compress_bytes=4096)
    counted = _Counted(group)
    world = dist.get_world_size()
    exact: list[tuple[torch.Tensor, Any, float]] = [
        (torch.full((100,), rank + 1.0), dist.ReduceOp.SUM, 3),  # too small for a codec
        (torch.full((5000,), rank + 1), dist.ReduceOp.SUM, 3),  # integers are not compressed
        (torch.full((5000,), rank + 1.0, dtype=torch.float64), dist.ReduceOp.SUM, 3),
        (torch.full((5000,), rank + 1.0), dist.ReduceOp.MAX, 2),
        (torch.full((5000,), rank + 1.0), dist.ReduceOp.MIN, 1),
        (torch.full((5000,), rank + 1.0), dist.ReduceOp.PRODUCT, 2),
    ]
    for number, (tensor, op, value) in enumerate(exact, 1):
        with gradients(f"exact {number}"):
            dist.all_reduce(tensor, op=op, group=group)
        assert counted.calls == number
        assert torch.equal(tensor, torch.full_like(tensor, value))
    assert group.sent_bytes == 0
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.AVG):
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            tensor = torch.full((5000,), rank + 1.0, dtype=dtype)
            with gradients("compressed"):
                work = dist.all_reduce(tensor, op=op, group=group, async_op=True)
            work.wait()
            assert work.is_completed()
            assert work.get_future().wait()[0] is tensor
            # All values are equal, so one bit carries them exactly, and the residual stays 0.
            torch.testing.assert_close(tensor.float(), torch.full((5000,), 3.0 if op == dist.ReduceOp.SUM else 1.5))
    assert counted.calls == len(exact)
    assert group.sent_bytes > 0
    # The other collectives go to Gloo.
    gathered = torch.empty(world * 2)
    dist.all_gather_into_tensor(gathered, torch.full((2,), float(rank)), group=group)
    assert gathered.tolist() == [0.0, 0.0, 1.0, 1.0]
    everyone: list[Any] = [None] * world
    dist.all_gather_object(everyone, rank, group=group)
    assert everyone == [0, 1]
    share = torch.empty(3000)
    dist.reduce_scatter_tensor(share, torch.full((6000,), rank + 1.0), group=group)
    assert torch.equal(share, torch.full((3000,), 3.0))
    value = torch.tensor([float(rank)])
    dist.broadcast(value, group=group, group_src=1)
    assert value.item() == 1.0
    dist.barrier(group)


def test_only_large_sums_and_averages_of_floats_are_compressed(tmp_path: Path) -> None:
    run(_passed_on, 2, str(tmp_path))


@training.in_process_group
def _ddp(rank: int) -> tuple[bytes, list[str]]:
    configure("onebit")
    torch.manual_seed(0)
    group = dist.new_group(backend="hipress")
    model = DistributedDataParallel(training.Net(), process_group=group, bucket_cap_mb=0.3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", hp.CodecWarning)
        for step in range(12):
            inputs, wanted = training.batch(rank, step)
            optimizer.zero_grad()
            (model(inputs) - wanted).square().mean().backward()
            optimizer.step()
    assert group.sent_bytes == 0
    return training.fingerprint(model), [str(each.message) for each in said]


def test_ddp_without_the_hook_is_exact_and_a_warning_says_once_what_to_call(tmp_path: Path) -> None:
    (tmp_path / "over").mkdir()
    (tmp_path / "plain").mkdir()
    plain = run(training.train, 2, str(tmp_path / "plain"), None, 12)
    for parameters, said in run(_ddp, 2, str(tmp_path / "over")):
        assert parameters == plain[0][0]
        assert len(said) == 1
        assert "'onebit' has compressed nothing" in said[0]
        assert "hipress.torch.ddp.compress(model" in said[0]


def _without_torch_knowing(folder: str) -> list[bytes]:
    """Makes groups as torchft does: from a store alone, and again after each change of members."""
    rank, results = int(os.environ["HIPRESS_RANK"]), []
    store, limit = dist.FileStore(f"{folder}/store", 2), datetime.timedelta(seconds=30)
    for number in range(2):
        group = CompressingGroup(dist.PrefixStore(str(number), store), rank, 2, limit, GroupOptions("onebit"))
        tensor = torch.randn(5000, generator=torch.Generator().manual_seed(rank))
        with gradients("fragment"):
            assert group.allreduce([tensor]).wait()
        with gradients("fragment"):
            assert group.allreduce(tensor, dist.ReduceOp.AVG, limit).wait()
        assert group.sent_bytes > 0
        results.append(tensor.numpy().tobytes())
    return results


def test_it_needs_a_store_and_no_default_group(tmp_path: Path) -> None:
    first, second = run(_without_torch_knowing, 2, str(tmp_path))
    assert first == second
    assert first[0] == first[1]


@training.in_process_group
def _over_hosts(rank: int) -> tuple[bytes, int]:
    group = _group("fp16", topology="hierarchical", ranks_per_host=2)
    tensor = torch.randn(300_000, generator=torch.Generator().manual_seed(rank))
    with gradients("all"):
        dist.all_reduce(tensor, group=group)
    exact = sum(torch.randn(300_000, generator=torch.Generator().manual_seed(each)) for each in range(4))
    torch.testing.assert_close(tensor, exact, rtol=0, atol=2.0**-7)
    return tensor.numpy().tobytes(), group.sent_bytes


def test_it_takes_hosts(tmp_path: Path) -> None:
    results = run(_over_hosts, 4, str(tmp_path))
    for tensor, sent in results:
        assert tensor == results[0][0]
        assert sent == pytest.approx(
            300_000 * 2 / 2, rel=0.02
        )  # of half a tensor: half to the owners, half of the sums


def _reduce(parts: dict[str, tuple[int, ...]], group: CompressingGroup, *counts: int) -> None:
    with gradients(parts):
        for count in counts:
            dist.all_reduce(torch.zeros(count), group=group)


@training.in_process_group
def _misused(rank: int) -> None:
    backend._configured = None
    with pytest.raises(hp.InvalidArgument, match="needs a codec"):
        dist.new_group(backend="hipress")
    with pytest.raises(hp.InvalidArgument, match=r"takes hipress.torch.process_groups.BackendOptions"):
        dist.new_group(backend="hipress", pg_options=dist.ProcessGroupGloo._Options())
    with pytest.raises(hp.InvalidArgument, match="codec"):
        _group("twobit")
    with pytest.raises(hp.Mismatch, match=r"rank 1 .* 'codec "):
        _group("onebit" if rank == 0 else "fp16")
    group = _group("onebit")
    with pytest.raises(hp.Mismatch, match="5001 elements"), gradients("g"):
        dist.all_reduce(torch.zeros(5000 + rank), group=group)
    group = _group("onebit")
    with gradients("g"):
        dist.all_reduce(torch.zeros(5000), group=group)
    with (
        pytest.raises(hp.InvalidArgument, match=r"'g' has 6000 elements, and had 5000: .* other names"),
        gradients("g"),
    ):
        dist.all_reduce(torch.zeros(6000), group=group)
    parts = {"weight": (100, 50), "bias": (50,)}
    with pytest.raises(hp.InvalidArgument, match="5050 elements for 2 gradients, and the all-reduce has 5000"):
        _reduce(parts, group, 5000)
    with pytest.raises(hp.InvalidArgument, match="the one all-reduce that 2 gradients travel in, and this is number 2"):
        _reduce(parts, group, 5050, 5050)
    with pytest.raises(hp.InvalidArgument, match="an earlier version, in which gradients had no names"):
        group.load_state_dict({"steps": 3, "tensors": {"call 0 with 5000 elements": 5000}, "states": {}})


def test_misuse_is_named(tmp_path: Path) -> None:
    run(_misused, 2, str(tmp_path))


@pytest.mark.parametrize(
    ("options", "world", "text"),
    [
        (GroupOptions("twobit"), 2, "codec 'twobit' does not exist"),
        (GroupOptions("int8_shared(levels=100)"), 2, "there are 2; choose options with which levels are up to 63"),
        (GroupOptions("onebit", "hierarchical", ranks_per_host=2), 3, "ranks_per_host=2, but the process group has 3"),
    ],
)
def test_a_rank_refuses_its_options_before_it_waits_for_others(options: GroupOptions, world: int, text: str) -> None:
    """A rank that had connected closed connections that others were still making, and they told that instead."""
    with pytest.raises(hp.InvalidArgument, match=text):
        CompressingGroup(dist.HashStore(), 0, world, datetime.timedelta(seconds=2), options)


@training.in_process_group
def _lost(rank: int) -> str:
    limit = datetime.timedelta(seconds=3)
    group = dist.new_group(backend="hipress", pg_options=BackendOptions("onebit"), timeout=limit)
    with gradients("g"):
        dist.all_reduce(torch.zeros(5000), group=group)
    if rank == 1:
        return ""
    with pytest.raises(hp.TransportError), gradients("g"):
        dist.all_reduce(torch.zeros(5000), group=group)
    return "said"


def test_a_lost_rank_ends_in_a_typed_error(tmp_path: Path) -> None:
    assert run(_lost, 2, str(tmp_path)) == ["said", ""]


@training.in_process_group
def _aborted(rank: int) -> tuple[bool, float]:
    """Whether abort() reached all groups that the average uses; and the seconds until a waiting average has ended."""
    reached: list[Any] = []
    limit = datetime.timedelta(seconds=3)
    group = dist.new_group(backend="hipress", pg_options=BackendOptions("onebit"), timeout=limit)
    assert isinstance(group, CompressingGroup)
    own = dist.ProcessGroupGloo.abort
    dist.ProcessGroupGloo.abort = lambda self: reached.append(self)  # type: ignore[method-assign]
    try:
        with gradients("g"):
            dist.all_reduce(torch.zeros(5000), group=group)
        begin = time.monotonic()
        if rank == 1:
            dist.barrier()  # with rank 0's next average it does not take part
            return True, time.monotonic() - begin
        with gradients("g"):
            work = dist.all_reduce(torch.zeros(5000), group=group, async_op=True)
        group.abort()
        with pytest.raises(hp.TransportError):
            work.wait()
        dist.barrier()
        return len(set(map(id, reached))) == group._made > 1, time.monotonic() - begin
    finally:
        dist.ProcessGroupGloo.abort = own  # type: ignore[method-assign]


def test_abort_reaches_all_groups_and_over_gloo_the_timeout_ends_an_average(tmp_path: Path) -> None:
    for reached, seconds in run(_aborted, 2, str(tmp_path)):
        assert reached
        assert 2 < seconds < 15
