# SPDX-License-Identifier: Apache-2.0
"""FSDP2's compressed all-gather with weights, shapes, types, messages and calls that are out of the ordinary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

import hipress.torch as hp
from hipress.torch import fsdp
from hipress.torch.fsdp import all_gather
from hipress.torch.process_groups import group_calls
from tests.torch.ddp import training
from tests.torch.fsdp.sharded_models import message_bytes, one_pass, sharded, train, watch
from tests.torch.process_groups.fake_gpu import FakeGpuSide
from tests.torch.ranks import run

pytestmark = pytest.mark.slow


@training.in_process_group
def _not_finite(rank: int, on_a_gpu: bool) -> None:
    mesh = init_device_mesh("cpu", (3,))
    with pytest.MonkeyPatch.context() as patch:
        if on_a_gpu:
            patch.setattr(all_gather, "side_for", lambda _: FakeGpuSide())
        for bad in (float("nan"), float("inf")):
            net = sharded(mesh)
            fsdp.compress_all_gather(net, "int8")
            seen = watch(net)
            with torch.no_grad():
                if rank == 1:
                    net[0][0].weight.to_local()[5, 7] = bad
                    net[0][0].bias.to_local()[3] = bad
            net(training.batch(rank, 0)[0])
            assert seen[0]["weight"][134:268].isnan().all()  # the whole shard of rank 1
            assert seen[0]["weight"][:134].isfinite().all()
            found = seen[0]["bias"][134 + 3]
            assert found.isnan() if bad != bad else found == bad
            assert int((~seen[0]["bias"].isfinite()).sum()) == 1


@pytest.mark.parametrize("on_a_gpu", [False, True])
def test_a_value_that_is_not_finite_is_seen_by_all_ranks(tmp_path: Path, on_a_gpu: bool) -> None:
    run(_not_finite, 3, str(tmp_path), on_a_gpu)


class _Odd(nn.Module):
    """Parameters of awkward shapes, and two that no gradient reaches."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        for number, shape in enumerate([(1,), (1, 1), (7,), (7, 1), (5, 3), (2, 300), (1, 999), (0, 4)]):
            # torch reduces no gradients without elements
            setattr(self, f"w{number}", nn.Parameter(torch.randn(shape), requires_grad=0 not in shape))
        self.frozen = nn.Parameter(torch.randn(30, 70), requires_grad=False)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return sum((each.square().sum() * inputs.mean() for each in self.parameters()), torch.zeros(()))


@training.in_process_group
def _odd(rank: int, dtype: torch.dtype) -> None:
    mesh = init_device_mesh("cpu", (3,))
    policy = MixedPrecisionPolicy(param_dtype=dtype)
    nets = [fully_shard(_Odd(), mesh=mesh, mp_policy=policy) for _ in range(2)]
    exact = {name: each.full_tensor().detach() for name, each in nets[0].named_parameters()}
    state = fsdp.compress_all_gather(
        nets[0], "int8", min_compress_bytes=0, compress_vectors=True, codec_for={"w4": "fp16", "w0": "none"}
    )
    assert "frozen" not in state.exact_tensors
    assert {"w0", "w1", "w7"} <= set(state.exact_tensors)
    for net in nets:
        net.unshard()
    for (name, found), (_, plain) in zip(nets[0].named_parameters(), nets[1].named_parameters(), strict=True):
        assert found.shape == plain.shape
        assert found.dtype == plain.dtype
        limit = 0 if name in state.exact_tensors else 0.03
        if plain.numel():
            assert float((found - plain).detach().abs().max()) <= limit * float(plain.detach().abs().max())
    for net in nets:
        net.reshard()
        net(torch.ones(3)).backward()
    for name, each in nets[0].named_parameters():
        assert torch.equal(each.full_tensor().detach(), exact[name])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_awkward_shapes_and_frozen_parameters(tmp_path: Path, dtype: torch.dtype) -> None:
    run(_odd, 3, str(tmp_path), dtype)


@training.in_process_group
def _smaller_group(rank: int) -> None:
    """reshard_after_forward=2: backward gathers parts of the decoded weights within pairs, as they are."""
    net = sharded(init_device_mesh("cpu", (4,)), reshard_after_forward=2)
    state = fsdp.compress_all_gather(net, "int8")
    seen = watch(net)
    one_pass(net, rank, 0)
    assert torch.equal(seen[0]["weight"], seen[3]["weight"])
    assert state.sent_in_forward > 0
    assert state.sent_in_backward == 0


def test_gathers_within_smaller_groups_stay_exact(tmp_path: Path) -> None:
    run(_smaller_group, 4, str(tmp_path))


@training.in_process_group
def _refused(rank: int, on_a_gpu: bool) -> str:
    """What the ranks say of a payload that rank 0 damages before it sends it."""
    mesh, send = init_device_mesh("cpu", (2,)), group_calls.all_gather

    def damage(group: Any, output: torch.Tensor, given: torch.Tensor) -> Any:
        if rank == 0:
            given[16:20] = torch.frombuffer(bytearray(b"\xff\xff\xff\x7f"), dtype=torch.uint8)
        return send(group, output, given)

    with pytest.MonkeyPatch.context() as patch:
        if on_a_gpu:
            patch.setattr(all_gather, "side_for", lambda _: FakeGpuSide())
        net = sharded(mesh)
        fsdp.compress_all_gather(net, "int8")
        patch.setattr(group_calls, "all_gather", damage)
        with torch.no_grad(), pytest.raises(hp.CorruptPayload) as refused:  # on a GPU it becomes known later
            nn.Sequential(net, nn.Linear(1, 40), net)(torch.ones(2, 40))
    return str(refused.value)


@pytest.mark.parametrize("on_a_gpu", [False, True])
def test_a_damaged_message_is_refused_by_all_ranks(tmp_path: Path, on_a_gpu: bool) -> None:
    for said in run(_refused, 2, str(tmp_path), on_a_gpu):
        assert "tensor '0.0.weight', partition 0, from rank 0 of the group" in said


class _Bytes(torch.Tensor):
    """A parameter that FSDP2 gathers as bytes, as torchao's float8 weights."""

    @staticmethod
    def __new__(cls, values: torch.Tensor) -> _Bytes:
        return torch.Tensor._make_wrapper_subclass(cls, values.size(), dtype=values.dtype)  # type: ignore[attr-defined, no-any-return]

    def __init__(self, values: torch.Tensor) -> None:
        self.values = values

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        plain = [each.values if isinstance(each, _Bytes) else each for each in args]
        result = func(*plain, **(kwargs or {}))
        keeps = func.overloadpacket.__name__ in {"detach", "view", "slice", "split", "new_zeros", "as_strided", "clone"}
        if not keeps:
            return result
        return [_Bytes(each) for each in result] if isinstance(result, list | tuple) else _Bytes(result)

    def fsdp_pre_all_gather(self, mesh: Any) -> Any:
        return (self.values.to(torch.float8_e4m3fn).view(torch.uint8),), None

    def fsdp_post_all_gather(self, outputs: Any, metadata: Any, dtype: torch.dtype, *, out: Any = None) -> Any:
        (data,) = outputs
        values = data.view(torch.float8_e4m3fn).to(dtype)
        if out is not None:
            out.copy_(values)
            return None
        return values, (data,)


@training.in_process_group
def _of_their_own(rank: int) -> None:
    net = nn.Sequential(nn.Linear(40, 400, bias=False), nn.Linear(400, 40, bias=False))
    net[0].weight = nn.Parameter(_Bytes(torch.randn(400, 40)))
    for layer in net:
        fully_shard(layer, mesh=init_device_mesh("cpu", (2,)))
    fully_shard(net, mesh=init_device_mesh("cpu", (2,)))
    state = fsdp.compress_all_gather(net, "int8")
    assert state.exact_tensors == ("0.weight",)
    with torch.no_grad():
        assert net(torch.ones(2, 40)).isfinite().all()
    assert state.sent_in_forward == message_bytes("int8", 200 * 40)


def test_parameters_that_make_their_own_bytes_travel_as_they_are(tmp_path: Path) -> None:
    run(_of_their_own, 2, str(tmp_path))


@training.in_process_group
def _misused(rank: int) -> None:
    mesh = init_device_mesh("cpu", (2,))
    with pytest.raises(hp.InvalidArgument, match=r"call fully_shard\(\) first, then compress_all_gather"):
        fsdp.compress_all_gather(nn.Linear(4, 4), "int8")
    with pytest.raises(hp.InvalidArgument, match="needs a codec"):
        fsdp.compress_all_gather(sharded(mesh))
    with pytest.raises(hp.Unsupported, match="chooses no codec"):
        fsdp.compress_all_gather(sharded(mesh), "auto")
    with pytest.raises(hp.InvalidArgument, match=r"'1\.5\.weight', which is not one of the 12 parameters"):
        fsdp.compress_all_gather(sharded(mesh), "int8", codec_for={"1.5.weight": "fp16"})
    for codec in ("onebit", "int8(error_feedback=true)"):
        with pytest.raises(hp.Unsupported, match="without error feedback"):
            fsdp.compress_all_gather(sharded(mesh), codec)
    with pytest.raises(hp.Mismatch, match=r"rank 1 .* 'codec "):
        fsdp.compress_all_gather(sharded(mesh), "fp16" if rank == 0 else "int8")
    with pytest.raises(hp.Mismatch, match=r"rank 1 .* 'call compress_reduce_scatter"):
        (fsdp.compress_all_gather if rank == 0 else fsdp.compress_reduce_scatter)(sharded(mesh), "int8")


def test_misuse_is_named(tmp_path: Path) -> None:
    run(_misused, 2, str(tmp_path))


@training.in_process_group
def _closed(rank: int) -> None:
    """After close(), and with one rank alone, FSDP2 computes with exact weights."""
    net = sharded(init_device_mesh("cpu", (dist.get_world_size(),)))
    state = fsdp.compress_all_gather(net, "int8")
    seen = watch(net)
    train(net, rank, steps=1)
    state.close()
    state.close()
    before, exact = state.sent_bytes, net[0][0].weight.full_tensor()
    seen.clear()
    with torch.no_grad():
        net(training.batch(rank, 0)[0])
    assert torch.equal(seen[0]["weight"], exact)
    assert state.sent_bytes == before
    assert (before > 0) == (dist.get_world_size() > 1)
    assert not any("hipress" in type(each).__module__ for each in _gathers(net))


def _gathers(net: nn.Module) -> list[Any]:
    states = [each._get_fsdp_state() for each in net.modules() if isinstance(each, FSDPModule)]
    return [group._all_gather_comm for state in states for group in state._fsdp_param_groups]


@pytest.mark.parametrize("world", [1, 2])
def test_close_gives_the_exact_gather_back(tmp_path: Path, world: int) -> None:
    run(_closed, world, str(tmp_path))
