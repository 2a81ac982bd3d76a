# SPDX-License-Identifier: Apache-2.0
"""HiPress compresses FSDP2's reduce-scatter, here on the CPU."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

import hipress.torch as hp
from hipress.torch import fsdp
from hipress.torch.fsdp import reduce_scatter
from hipress.torch.process_groups import group_calls
from tests.torch.ddp import training
from tests.torch.process_groups.fake_gpu import FakeGpuSide
from tests.torch.ranks import outcomes, run

pytestmark = pytest.mark.slow

STEPS = 5


def _sharded(mesh: Any, **options: Any) -> Any:
    """A sharded model whose first matrix cannot be divided into three equal shards."""
    torch.manual_seed(0)
    blocks = [nn.Sequential(nn.Linear(40, 400), nn.ReLU(), nn.Linear(400, 40)) for _ in range(2)]
    net = nn.Sequential(*blocks, nn.LayerNorm(40), nn.Linear(40, 1))
    for block in net[:2]:
        fully_shard(block, mesh=mesh, **options)
    return fully_shard(net, mesh=mesh, **options)


def _train(net: nn.Module, rank: int) -> float:
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    loss = torch.zeros(())
    for step in range(STEPS):
        inputs, wanted = training.batch(rank, step)
        optimizer.zero_grad()
        loss = (net(inputs) - wanted).square().mean()
        loss.backward()
        optimizer.step()
    return float(loss)


def _whole(net: nn.Module) -> np.ndarray[Any, Any]:
    return np.concatenate([each.full_tensor().detach().float().numpy().ravel() for each in net.parameters()])


@training.in_process_group
def _trained(rank: int, codec: str, dtype: torch.dtype, divide: bool) -> tuple[Any, Any, int]:
    """The parameters with and without compression, and the bytes that the compressed training has sent."""
    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    options = {"mp_policy": MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=dtype)}
    results, sent = [], 0
    for compressed in (True, False):
        net = _sharded(mesh, **options)
        if divide:
            for module in net.modules():
                if isinstance(module, torch.distributed.fsdp.FSDPModule):
                    module.set_gradient_divide_factor(6.0)
                    module.set_force_sum_reduction_for_comms(True)
        if compressed:
            state = fsdp.compress_reduce_scatter(net, codec)
        _train(net, rank)
        results.append(_whole(net))
        sent = state.sent_bytes
    return results[0], results[1], sent


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("divide", [False, True])
def test_without_a_codec_it_is_fsdp_to_the_bit(tmp_path: Path, dtype: torch.dtype, divide: bool) -> None:
    for net, alone, sent in run(_trained, 3, str(tmp_path), "none", dtype, divide):
        np.testing.assert_array_equal(net, alone)
        assert sent == 0


@pytest.mark.parametrize(("codec", "bits", "limit"), [("fp16", 16, 1e-3), ("terngrad", 2, 0.02)])
@pytest.mark.parametrize("divide", [False, True])
def test_with_a_codec_it_sends_as_many_bits_as_the_codec_has(
    tmp_path: Path, codec: str, bits: int, limit: float, divide: bool
) -> None:
    world = 3
    for net, alone, sent in run(_trained, world, str(tmp_path), codec, torch.float32, divide):
        assert 0 < np.abs(net - alone).max() < limit
        shard = 2 * (134 * 40 + 14 * 400)  # rows are padded; vectors and the last layer travel raw
        raw = STEPS * (world - 1) * shard * bits / 8
        assert raw <= sent <= raw + STEPS * (world - 1) * 4 * (80 + 15)  # headers and padding


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_other_types_are_summed_in_float32(tmp_path: Path, dtype: torch.dtype) -> None:
    for net, alone, sent in run(_trained, 3, str(tmp_path), "fp16", dtype, False):
        assert sent > 0
        np.testing.assert_allclose(net, alone, rtol=0, atol=5e-3)


@training.in_process_group
def _both(rank: int) -> tuple[Any, Any]:
    """The parameters with compression within hosts and between them, and with torch's FSDP2 alone on all four ranks."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    net = _sharded(mesh["shard"])
    inner = fsdp.compress_reduce_scatter(net, "fp16")
    outer = fsdp.compress_replicas(net, mesh["replicate"].get_group(), "fp16")
    _train(net, rank)
    assert inner.sent_bytes > 0
    assert outer.sent_bytes > 0
    alone = _sharded(init_device_mesh("cpu", (4,)))
    _train(alone, rank)
    return _whole(net), _whole(alone)


def test_shards_and_replicas_can_both_be_compressed(tmp_path: Path) -> None:
    results = run(_both, 4, str(tmp_path))
    for net, alone in results:
        np.testing.assert_array_equal(net, results[0][0])
        np.testing.assert_allclose(net, alone, rtol=0, atol=1e-4)


@training.in_process_group
def _on_both_sides(rank: int, codec: str, dtype: torch.dtype) -> list[tuple[Any, int]]:
    """The parameters and the sent bytes of the processor, then those of a GPU's stand-in."""
    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    results = []
    for side in (None, FakeGpuSide()):
        with pytest.MonkeyPatch.context() as patch:
            if side is not None:
                patch.setattr(reduce_scatter, "side_for", lambda _, side=side: side)
            net = _sharded(mesh, mp_policy=MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=dtype))
            state = fsdp.compress_reduce_scatter(net, codec, min_compress_bytes=100)
        _train(net, rank)
        results.append((_whole(net), state.sent_bytes))
    return results


@pytest.mark.parametrize(
    ("codec", "dtype"), [("fp16", torch.float32), ("terngrad", torch.float32), ("int8", torch.bfloat16)]
)
def test_a_gpu_gives_the_bits_of_the_processor(tmp_path: Path, codec: str, dtype: torch.dtype) -> None:
    for (net, sent), (found, found_sent) in run(_on_both_sides, 3, str(tmp_path), codec, dtype):
        np.testing.assert_array_equal(found, net)
        assert found_sent == sent


def _refused_payload(folder: str) -> str:
    # The rank that raises the error leaves the other one waiting.
    with training.process_group(folder, timeout=4.0) as (rank, _):
        return _train_with_damage(rank)


def _train_with_damage(rank: int) -> str:
    mesh = init_device_mesh("cpu", (2,))
    send = group_calls.all_to_all

    def damage(group: Any, output: torch.Tensor, given: torch.Tensor, *sizes: list[int]) -> Any:
        if rank == 0:
            given[16:20] = torch.frombuffer(bytearray(b"\xff\xff\xff\x7f"), dtype=torch.uint8)
        return send(group, output, given, *sizes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reduce_scatter, "side_for", lambda _: FakeGpuSide())
        net = _sharded(mesh)
        fsdp.compress_reduce_scatter(net, "terngrad")
        patch.setattr(group_calls, "all_to_all", damage)
        with pytest.raises(hp.CorruptPayload) if rank == 1 else contextlib.nullcontext() as refused:
            _train(net, rank)
    return "" if refused is None else str(refused.value)


def test_a_refused_payload_ends_a_later_sum(tmp_path: Path) -> None:
    _, said = outcomes(_refused_payload, 2, str(tmp_path))
    assert "from rank 0 of the group" in str(said)


@training.in_process_group
def _misused(rank: int) -> None:
    mesh = init_device_mesh("cpu", (2,))
    with pytest.raises(hp.InvalidArgument, match="call fully_shard"):
        fsdp.compress_reduce_scatter(nn.Linear(4, 4), "fp16")
    with pytest.raises(hp.InvalidArgument, match="needs a codec"):
        fsdp.compress_reduce_scatter(_sharded(mesh))
    with pytest.raises(hp.InvalidArgument, match="needs a codec"):
        fsdp.compress_replicas(_sharded(mesh), mesh.get_group())
    for codec in ("onebit", "dgc(ratio=0.1)"):
        with pytest.raises(hp.Unsupported, match="without error feedback"):
            fsdp.compress_reduce_scatter(_sharded(mesh), codec)
    with pytest.raises(hp.Mismatch, match=r"rank 1 .* 'codec "):
        fsdp.compress_reduce_scatter(_sharded(mesh), "fp16" if rank == 0 else "terngrad")
    net = _sharded(mesh)
    fsdp.compress_reduce_scatter(net, "fp16")
    for module in net.modules():
        if isinstance(module, torch.distributed.fsdp.FSDPModule):
            module.set_gradient_divide_factor(6.0)
    with pytest.raises(hp.InvalidArgument, match="set_force_sum_reduction_for_comms"):
        net(torch.randn(4, 40)).sum().backward()


def test_misuse_is_named(tmp_path: Path) -> None:
    run(_misused, 2, str(tmp_path))


@training.in_process_group
def _restarted(rank: int) -> tuple[Any, Any, Any]:
    """The parameters of a training, of one that goes on from its third step with the state, and without it."""
    mesh = init_device_mesh("cpu", (2,))
    nets = [_sharded(mesh) for _ in range(3)]
    states = [fsdp.compress_reduce_scatter(net, "terngrad") for net in nets]
    _train(nets[0], rank)
    for net in nets[1:]:
        with torch.no_grad():
            for new, old in zip(net.parameters(), nets[0].parameters(), strict=True):
                new.copy_(old)
    states[1].load_state_dict(states[0].state_dict())
    with pytest.raises(hp.InvalidArgument, match="a model with 0 sharded modules; this one has 3"):
        states[2].load_state_dict({})
    for net in nets:
        _train(net, rank)
    return tuple(_whole(net) for net in nets)  # type: ignore[return-value]


def test_random_rounding_goes_on_after_a_restart(tmp_path: Path) -> None:
    for straight, restored, begun in run(_restarted, 2, str(tmp_path)):
        np.testing.assert_array_equal(restored, straight)
        assert not np.array_equal(begun, straight)
