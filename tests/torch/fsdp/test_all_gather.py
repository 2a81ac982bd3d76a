# SPDX-License-Identifier: Apache-2.0
"""HiPress compresses FSDP2's all-gather of parameters, here on the CPU."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy

import hipress.torch as hp
from hipress import _core
from hipress.torch import fsdp
from hipress.torch.fsdp import all_gather, reduce_scatter
from tests.torch.ddp import training
from tests.torch.fsdp.sharded_models import all_values, message_bytes, one_pass, sharded, train, watch
from tests.torch.process_groups.fake_gpu import FakeGpuSide
from tests.torch.ranks import run

pytestmark = pytest.mark.slow


def _decoded(shard: torch.Tensor, codec: str) -> torch.Tensor:
    """A shard's own round trip."""
    made = _core.create_codec(codec)
    values = shard.detach().float().contiguous().numpy().ravel()
    decoded = made.decode(made.encode(values), len(values))
    return torch.from_numpy(decoded).to(shard.dtype).view(shard.shape)


@training.in_process_group
def _weights(rank: int, codec: str, dtype: torch.dtype | None) -> None:
    """Every rank computes with each shard's round trip, and keeps its own shard exact."""
    world = dist.get_world_size()
    policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=dtype)
    net = sharded(init_device_mesh("cpu", (world,)), mp_policy=policy)
    before = {name: each.detach().to_local().clone() for name, each in net.named_parameters()}
    whole = net[0][0].weight.full_tensor().detach().to(dtype or torch.float32)
    state = fsdp.compress_all_gather(net, codec)
    seen = watch(net)
    one_pass(net, rank, 0)
    rows = -(-len(whole) // world)  # the last rank's shard has fewer, and padding
    padded = torch.zeros(rows * world, 40, dtype=whole.dtype)
    padded[: len(whole)] = whole
    expected = torch.cat([_decoded(shard, codec) for shard in padded.split(rows)])[: len(whole)]
    assert len(seen) == 4  # two blocks, in forward and backward passes
    np.testing.assert_array_equal(seen[0]["weight"].float().numpy(), expected.float().numpy())
    assert not torch.equal(seen[0]["weight"], whole)
    for forward, backward in ((seen[0], seen[3]), (seen[1], seen[2])):
        for name, values in forward.items():
            assert torch.equal(values, backward[name])
    bias = net[0][0].bias.full_tensor().detach().to(whole.dtype)
    assert torch.equal(seen[0]["bias"], bias)  # a vector travels as it is
    for name, each in net.named_parameters():
        assert torch.equal(each.detach().to_local(), before[name])
    assert {"0.0.bias", "2.weight", "3.weight"} <= set(state.exact_tensors)
    assert "0.0.weight" not in state.exact_tensors


@pytest.mark.parametrize(("codec", "dtype"), [("int8", None), ("fp8_e4m3", torch.bfloat16)])
def test_all_ranks_compute_with_each_shards_round_trip(tmp_path: Path, codec: str, dtype: torch.dtype | None) -> None:
    run(_weights, 3, str(tmp_path), codec, dtype)


@training.in_process_group
def _trained(rank: int, codec: str, kept: bool) -> tuple[Any, Any, tuple[int, int, int]]:
    """The parameters with and without compression of all traffic, and the bytes of the gathers."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    nets = [sharded(mesh, reshard_after_forward=not kept) for _ in range(2)]
    state = fsdp.compress_all_gather(nets[0], codec)
    if codec != "none":
        fsdp.compress_reduce_scatter(nets[0], codec)
    losses = [train(net, rank, lr=0.001) for net in nets]
    assert losses[0] == pytest.approx(losses[1], rel=0.05)
    return all_values(nets[0]), all_values(nets[1]), (state.sent_in_forward, state.sent_in_backward, state.sent_bytes)


@pytest.mark.parametrize("kept", [False, True])
def test_it_sends_as_many_bytes_as_the_codec_has(tmp_path: Path, kept: bool) -> None:
    world, steps = 3, 5
    results = run(_trained, world, str(tmp_path), "int8", kept)
    pass_bytes = steps * (world - 1) * 2 * (message_bytes("int8", 134 * 40) + message_bytes("int8", 14 * 400))
    for net, alone, (forward, backward, sent) in results:
        np.testing.assert_array_equal(net, results[0][0])
        assert 0 < np.abs(net - alone).max() < 0.01
        assert forward == pass_bytes
        assert backward == (0 if kept else pass_bytes)
        assert sent == forward + backward


def test_without_a_codec_it_is_fsdp_to_the_bit(tmp_path: Path) -> None:
    for net, alone, sent in run(_trained, 2, str(tmp_path), "none", False):
        np.testing.assert_array_equal(net, alone)
        assert sent == (0, 0, 0)


def _stepped(optimizer: Any) -> Any:
    return functools.partial(optimizer, lr=0.01)


@training.in_process_group
def _rounded(rank: int) -> None:
    """Random rounding: both passes and all of a step's micro-batches have one result, and each step has another."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for make in (
        _stepped(torch.optim.SGD),
        functools.partial(torch.optim.AdamW, lr=0.01, foreach=True),
        functools.partial(torch.optim.AdamW, lr=0.01, fused=True),
    ):
        net = sharded(mesh)
        fsdp.compress_all_gather(net, "int8(stochastic=true)")
        optimizer = make(net.parameters())
        other = torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1)
        seen = watch(net)
        for micro in range(2):
            one_pass(net, rank, micro)
            other.step()
        with torch.no_grad():
            net(training.batch(rank, 0)[0])
        of_first_block = [seen[place]["weight"] for place in (0, 3, 4, 7, 8)]
        assert all(torch.equal(each, of_first_block[0]) for each in of_first_block)
        for group in optimizer.param_groups:
            group["lr"] = 0.0
            group["weight_decay"] = 0.0
        seen.clear()
        optimizer.step()  # the weights stay, and their rounding does not
        one_pass(net, rank, 0)
        assert not torch.equal(seen[0]["weight"], of_first_block[0])
        with torch.no_grad():
            next(net[0].parameters()).mul_(1.0)
        seen.clear()
        one_pass(net, rank, 0)
        assert torch.equal(seen[0]["weight"], seen[3]["weight"])


def test_weights_are_rounded_anew_when_they_change(tmp_path: Path) -> None:
    run(_rounded, 2, str(tmp_path))


@training.in_process_group
def _restarted(rank: int) -> tuple[Any, Any, Any]:
    """The parameters of a training, of one that goes on from its fifth step with the state, and without it."""
    mesh = init_device_mesh("cpu", (2,))
    nets = [sharded(mesh) for _ in range(3)]
    states = [fsdp.compress_all_gather(net, "int8(stochastic=true)") for net in nets]
    train(nets[0], rank)
    for net in nets[1:]:
        net.load_state_dict(nets[0].state_dict())
    states[1].load_state_dict(states[0].state_dict())
    with pytest.raises(hp.InvalidArgument, match="a model with 0 sharded modules; this one has 3"):
        states[2].load_state_dict({})
    for net in nets:
        train(net, rank)
    return tuple(all_values(net) for net in nets)  # type: ignore[return-value]


def test_random_rounding_goes_on_after_a_restart(tmp_path: Path) -> None:
    for straight, restored, begun in run(_restarted, 2, str(tmp_path)):
        np.testing.assert_array_equal(restored, straight)
        assert not np.array_equal(begun, straight)


@training.in_process_group
def _together(rank: int) -> tuple[Any, Any]:
    """All of a model's traffic is compressed, with activation checkpoints and gradients of two micro-batches."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    wrap = functools.partial(checkpoint_wrapper)
    net, alone = sharded(mesh["shard"], wrap), sharded(mesh["shard"], wrap)
    gathered = fsdp.compress_all_gather(net, "int8")
    scattered = fsdp.compress_reduce_scatter(net, "int8")
    for each, codec in ((net, "int8"), (alone, "none")):
        fsdp.compress_replicas(each, mesh["replicate"].get_group(), codec)
    for model in (net, alone):
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
        for step in range(4):
            for micro in range(2):
                model.set_requires_gradient_sync(micro == 1)
                one_pass(model, rank, 2 * step + micro)
            optimizer.step()
            optimizer.zero_grad()
    assert min(gathered.sent_in_forward, gathered.sent_in_backward, scattered.sent_bytes) > 0
    return all_values(net), all_values(alone)


def test_all_traffic_can_be_compressed(tmp_path: Path) -> None:
    results = run(_together, 4, str(tmp_path))
    for net, alone in results:
        np.testing.assert_array_equal(net, results[0][0])
        assert 0 < np.abs(net - alone).max() < 0.02


@training.in_process_group
def _hybrid(rank: int) -> tuple[Any, Any]:
    """FSDP2 averages over replicas by itself, prefetches explicitly, and gathers again within pairs of ranks."""
    world = dist.get_world_size()
    mesh = init_device_mesh("cpu", (2, world // 2), mesh_dim_names=("replicate", "shard"))
    net, alone = sharded(mesh), sharded(mesh)
    fsdp.compress_all_gather(net, "int8")
    for each in (net, alone):
        each.set_modules_to_forward_prefetch([each[0], each[1]])
        each[0].set_modules_to_forward_prefetch([each[1]])
        train(each, rank, lr=0.001)
    return all_values(net), all_values(alone)


def test_hybrid_shards_with_prefetches(tmp_path: Path) -> None:
    results = run(_hybrid, 4, str(tmp_path))
    for net, alone in results:
        np.testing.assert_array_equal(net, results[0][0])
        assert 0 < np.abs(net - alone).max() < 0.02


@training.in_process_group
def _on_both_sides(rank: int, dtype: torch.dtype) -> list[tuple[Any, int]]:
    """The parameters and the sent bytes of the processor, then those of a GPU's stand-in."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    results = []
    for on_a_gpu in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            if on_a_gpu:
                for module in (all_gather, reduce_scatter):
                    patch.setattr(module, "side_for", lambda _: FakeGpuSide())
            net = sharded(mesh, mp_policy=MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=dtype))
            state = fsdp.compress_all_gather(net, "int8(stochastic=true)", min_compress_bytes=100)
            fsdp.compress_reduce_scatter(net, "int8", min_compress_bytes=100)
        train(net, rank)
        state.close()
        results.append((all_values(net), state.sent_bytes))
    return results


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_gpu_gives_the_bits_of_the_processor(tmp_path: Path, dtype: torch.dtype) -> None:
    for (net, sent), (found, found_sent) in run(_on_both_sides, 3, str(tmp_path), dtype):
        np.testing.assert_array_equal(found, net)
        assert found_sent == sent
