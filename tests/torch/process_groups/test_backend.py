# SPDX-License-Identifier: Apache-2.0
"""The backend "hipress" compresses large all-reduces, and leaves all other collectives to Gloo."""

from __future__ import annotations

import datetime
import os
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
from hipress.torch.process_groups import BackendOptions, CompressingGroup, GroupOptions, backend, configure
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
        _train(net, rank, range(5))
        results.append(_whole(net))
        if each is not None:
            sent = mesh["rep"].get_group().sent_bytes
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
        # Both blocks are compressed; other tensors are smaller than 4096 bytes. With ps a rank of two sends half of a
        # shard and half of the average.
        elements = 2 * (2 * 40 * 2000 + 2040) // 2
        assert elements * 5 / 8 < sent <= 4 * elements * 5 / 25


class _Counted:
    """Counts the calls that reach Gloo."""

    def __init__(self, group: CompressingGroup) -> None:
        self.inner, self.calls = group._inner, 0
        group._inner = self

    def allreduce(self, *arguments: Any) -> Any:
        self.calls += 1
        return self.inner.allreduce(*arguments)


@training.in_process_group
def _passed_on(rank: int) -> None:
    group = _group("onebit", min_compress_bytes=4096)
    counted = _Counted(group)
    world = dist.get_world_size()
    exact: list[tuple[torch.Tensor, Any]] = [
        (torch.full((100,), rank + 1.0), dist.ReduceOp.SUM),  # too small for a codec
        (torch.full((5000,), rank + 1), dist.ReduceOp.SUM),  # integers are not compressed
        (torch.full((5000,), rank + 1.0, dtype=torch.float64), dist.ReduceOp.SUM),
        (torch.full((5000,), rank + 1.0), dist.ReduceOp.MAX),
        (torch.full((5000,), rank + 1.0), dist.ReduceOp.MIN),
        (torch.full((5000,), rank + 1.0), dist.ReduceOp.PRODUCT),
    ]
    expected = [3, 3, 3, 2, 1, 2] if world == 2 else []
    for number, ((tensor, op), value) in enumerate(zip(exact, expected, strict=True), 1):
        dist.all_reduce(tensor, op=op, group=group)
        assert counted.calls == number
        assert torch.equal(tensor, torch.full_like(tensor, value))
    assert group.sent_bytes == 0
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.AVG):
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            tensor = torch.full((5000,), rank + 1.0, dtype=dtype)
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
def _in_turn(rank: int) -> Any:
    """Averages two tensors in turn with onebit's error feedback. Returns the sums of ten averages, the inputs, and the
    states."""
    group = _group("onebit")
    totals = [torch.zeros(3000), torch.zeros(3000)]
    inputs = [torch.randn(3000, generator=torch.Generator().manual_seed(10 * rank + each)) for each in range(2)]
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    for _ in range(10):
        for total, values in zip(totals, inputs, strict=True):
            tensor = values.clone()
            dist.all_reduce(tensor, op=dist.ReduceOp.AVG, group=group)
            total += tensor
        optimizer.step()
    return [each.numpy() for each in totals], [each.numpy() for each in inputs], group.state_dict()


def test_each_call_of_a_step_has_its_own_residual(tmp_path: Path) -> None:
    results = run(_in_turn, 2, str(tmp_path))
    assert results[0][2]["steps"] == 10
    assert len(results[0][2]["tensors"]) == 2
    for call in range(2):
        exact = 10 * sum(inputs[call].astype(np.float64) for _, inputs, _ in results) / 2
        total = results[0][0][call].astype(np.float64)
        for _, _, saved in results:
            for key, values in saved["states"].items():
                name, role, first, count = key.split("\n")
                if name.startswith(f"call {call} "):
                    share = 1 / 2 if role == "worker" else 1.0
                    total[int(first) : int(first) + int(count)] += share * values["residual"]
        np.testing.assert_allclose(total, exact, rtol=1e-4, atol=1e-4)


@training.in_process_group
def _restarted(rank: int) -> None:
    inputs = [torch.randn(3000, generator=torch.Generator().manual_seed(rank)) for _ in range(2)]

    def steps(group: CompressingGroup, count: int) -> torch.Tensor:
        for _ in range(count):
            for values in inputs:
                last = values.clone()
                dist.all_reduce(last, group=group)
            group.end_step()
        return last

    straight, again = _group("onebit"), _group("onebit")
    steps(straight, 3)
    again.load_state_dict(straight.state_dict())
    assert torch.equal(steps(straight, 2), steps(again, 2))


def test_a_restart_with_the_states_changes_nothing(tmp_path: Path) -> None:
    run(_restarted, 2, str(tmp_path))


@training.in_process_group
def _ddp(rank: int, codec: str) -> bytes:
    configure(codec)
    torch.manual_seed(0)
    group = dist.new_group(backend="hipress")
    model = DistributedDataParallel(training.Net(), process_group=group, bucket_cap_mb=0.3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(5):
        inputs, wanted = training.batch(rank, step)
        optimizer.zero_grad()
        (model(inputs) - wanted).square().mean().backward()
        optimizer.step()
    assert (group.sent_bytes > 0) == (codec != "none")
    return training.fingerprint(model)


def test_ddp_trains_over_it(tmp_path: Path) -> None:
    results = {}
    for codec in ("none", "onebit"):
        (tmp_path / codec).mkdir()
        results[codec] = run(_ddp, 2, str(tmp_path / codec), codec)
        assert results[codec][0] == results[codec][1]
    (tmp_path / "plain").mkdir()
    plain = run(training.train, 2, str(tmp_path / "plain"), None, 5)
    assert results["none"][0] == plain[0][0]
    assert results["onebit"][0] != plain[0][0]


def _without_torch_knowing(folder: str) -> list[bytes]:
    """Makes groups as torchft does: from a store alone, and again after each change of members."""
    rank, results = int(os.environ["HIPRESS_RANK"]), []
    store, limit = dist.FileStore(f"{folder}/store", 2), datetime.timedelta(seconds=30)
    for number in range(2):
        group = CompressingGroup(dist.PrefixStore(str(number), store), rank, 2, limit, GroupOptions("onebit"))
        tensor = torch.randn(5000, generator=torch.Generator().manual_seed(rank))
        assert group.allreduce([tensor]).wait()
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
    with pytest.raises(hp.Mismatch, match="5001 elements"):
        dist.all_reduce(torch.zeros(5000 + rank), group=group)
    group = _group("onebit")
    optimizers = [torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1) for _ in range(2)]
    for optimizer in optimizers:
        dist.all_reduce(torch.zeros(5000), group=group)
        optimizer.step()
    with pytest.raises(hp.Unsupported, match="two optimizers"):
        dist.all_reduce(torch.zeros(5000), group=group)


def test_misuse_is_named(tmp_path: Path) -> None:
    run(_misused, 2, str(tmp_path))


@training.in_process_group
def _lost(rank: int) -> str:
    limit = datetime.timedelta(seconds=3)
    group = dist.new_group(backend="hipress", pg_options=BackendOptions("onebit"), timeout=limit)
    dist.all_reduce(torch.zeros(5000), group=group)
    group.end_step()
    if rank == 1:
        return ""
    with pytest.raises(hp.TransportError):
        dist.all_reduce(torch.zeros(5000), group=group)
    return "said"


def test_a_lost_rank_ends_in_a_typed_error(tmp_path: Path) -> None:
    assert run(_lost, 2, str(tmp_path)) == ["said", ""]
