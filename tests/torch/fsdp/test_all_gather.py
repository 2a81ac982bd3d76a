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
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

import hipress.torch as hp
from hipress import _core
from hipress.torch import fsdp
from hipress.torch.fsdp import all_gather, reduce_scatter
from hipress.torch.process_groups import group_calls
from tests.torch.ddp import training
from tests.torch.process_groups.fake_gpu import FakeGpuSide
from tests.torch.ranks import run

pytestmark = pytest.mark.slow

#: Bytes of a message's header, and of what messages are a multiple of.
HEADER, ALIGNED = 32, 16


def _sharded(mesh: Any, wrap: Any = lambda block: block, **options: Any) -> Any:
    """A sharded model whose first matrix cannot be divided into three equal shards."""
    torch.manual_seed(0)
    blocks = [wrap(nn.Sequential(nn.Linear(40, 400), nn.ReLU(), nn.Linear(400, 40))) for _ in range(2)]
    net = nn.Sequential(*blocks, nn.LayerNorm(40), nn.Linear(40, 1))
    for block in net[:2]:
        fully_shard(block, mesh=mesh, **options)
    return fully_shard(net, mesh=mesh, **options)


def _backward(net: nn.Module, rank: int, step: int) -> torch.Tensor:
    inputs, wanted = training.batch(rank, step)
    loss = (net(inputs) - wanted).square().mean()
    loss.backward()
    return loss.detach()


def _train(net: nn.Module, rank: int, steps: int = 5, lr: float = 0.01) -> float:
    optimizer = torch.optim.AdamW(net.parameters(), lr=lr)
    loss = torch.zeros(())
    for step in range(steps):
        optimizer.zero_grad()
        loss = _backward(net, rank, step)
        optimizer.step()
    return loss.item()


def _whole(net: nn.Module) -> np.ndarray[Any, Any]:
    return np.concatenate([each.full_tensor().detach().float().numpy().ravel() for each in net.parameters()])


def _watch(net: nn.Module) -> list[dict[str, torch.Tensor]]:
    """The decoded weights of each gather from now on: of blocks that compute, in their order."""
    seen: list[dict[str, torch.Tensor]] = []

    def look(module: Any, *_: Any) -> None:
        seen.append({name: each.detach().clone() for name, each in module.named_parameters()})

    for block in net[:2]:  # type: ignore[index]
        linear = block[0]
        linear.register_forward_pre_hook(look)
        linear.register_full_backward_pre_hook(look)
    return seen


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
    net = _sharded(init_device_mesh("cpu", (world,)), mp_policy=policy)
    before = {name: each.detach().to_local().clone() for name, each in net.named_parameters()}
    whole = net[0][0].weight.full_tensor().detach().to(dtype or torch.float32)
    state = fsdp.compress_all_gather(net, codec)
    seen = _watch(net)
    _backward(net, rank, 0)
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


def _message(codec: str, elements: int) -> int:
    room = _core.create_codec(codec).max_encoded_bytes(elements)
    return -(-(HEADER + room) // ALIGNED) * ALIGNED


@training.in_process_group
def _trained(rank: int, codec: str, kept: bool) -> tuple[Any, Any, tuple[int, int, int]]:
    """The parameters with and without compression of all traffic, and the bytes of the gathers."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    nets = [_sharded(mesh, reshard_after_forward=not kept) for _ in range(2)]
    state = fsdp.compress_all_gather(nets[0], codec)
    if codec != "none":
        fsdp.compress_reduce_scatter(nets[0], codec)
    losses = [_train(net, rank, lr=0.001) for net in nets]
    assert losses[0] == pytest.approx(losses[1], rel=0.05)
    return _whole(nets[0]), _whole(nets[1]), (state.sent_in_forward, state.sent_in_backward, state.sent_bytes)


@pytest.mark.parametrize("kept", [False, True])
def test_it_sends_as_many_bytes_as_the_codec_has(tmp_path: Path, kept: bool) -> None:
    world, steps = 3, 5
    results = run(_trained, world, str(tmp_path), "int8", kept)
    pass_bytes = steps * (world - 1) * 2 * (_message("int8", 134 * 40) + _message("int8", 14 * 400))
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
        net = _sharded(mesh)
        fsdp.compress_all_gather(net, "int8(stochastic=true)")
        optimizer = make(net.parameters())
        other = torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1)
        seen = _watch(net)
        for micro in range(2):
            _backward(net, rank, micro)
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
        _backward(net, rank, 0)
        assert not torch.equal(seen[0]["weight"], of_first_block[0])
        with torch.no_grad():
            next(net[0].parameters()).mul_(1.0)
        seen.clear()
        _backward(net, rank, 0)
        assert torch.equal(seen[0]["weight"], seen[3]["weight"])


def test_weights_are_rounded_anew_when_they_change(tmp_path: Path) -> None:
    run(_rounded, 2, str(tmp_path))


@training.in_process_group
def _restarted(rank: int) -> tuple[Any, Any, Any]:
    """The parameters of a training, of one that goes on from its fifth step with the state, and without it."""
    mesh = init_device_mesh("cpu", (2,))
    nets = [_sharded(mesh) for _ in range(3)]
    states = [fsdp.compress_all_gather(net, "int8(stochastic=true)") for net in nets]
    _train(nets[0], rank)
    for net in nets[1:]:
        net.load_state_dict(nets[0].state_dict())
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


@training.in_process_group
def _not_finite(rank: int, on_a_gpu: bool) -> None:
    mesh = init_device_mesh("cpu", (3,))
    with pytest.MonkeyPatch.context() as patch:
        if on_a_gpu:
            patch.setattr(all_gather, "side_for", lambda _: FakeGpuSide())
        for bad in (float("nan"), float("inf")):
            net = _sharded(mesh)
            fsdp.compress_all_gather(net, "int8")
            seen = _watch(net)
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
def _together(rank: int) -> tuple[Any, Any]:
    """All of a model's traffic is compressed, with activation checkpoints and gradients of two micro-batches."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    wrap = functools.partial(checkpoint_wrapper)
    net, alone = _sharded(mesh["shard"], wrap), _sharded(mesh["shard"], wrap)
    gathered = fsdp.compress_all_gather(net, "int8")
    scattered = fsdp.compress_reduce_scatter(net, "int8")
    for each, codec in ((net, "int8"), (alone, "none")):
        fsdp.compress_replicas(each, mesh["replicate"].get_group(), codec)
    for model in (net, alone):
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
        for step in range(4):
            for micro in range(2):
                model.set_requires_gradient_sync(micro == 1)
                _backward(model, rank, 2 * step + micro)
            optimizer.step()
            optimizer.zero_grad()
    assert min(gathered.sent_in_forward, gathered.sent_in_backward, scattered.sent_bytes) > 0
    return _whole(net), _whole(alone)


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
    net, alone = _sharded(mesh), _sharded(mesh)
    fsdp.compress_all_gather(net, "int8")
    for each in (net, alone):
        each.set_modules_to_forward_prefetch([each[0], each[1]])
        each[0].set_modules_to_forward_prefetch([each[1]])
        _train(each, rank, lr=0.001)
    return _whole(net), _whole(alone)


def test_hybrid_shards_with_prefetches(tmp_path: Path) -> None:
    results = run(_hybrid, 4, str(tmp_path))
    for net, alone in results:
        np.testing.assert_array_equal(net, results[0][0])
        assert 0 < np.abs(net - alone).max() < 0.02


@training.in_process_group
def _smaller_group(rank: int) -> None:
    """reshard_after_forward=2: backward gathers parts of the decoded weights within pairs, as they are."""
    net = _sharded(init_device_mesh("cpu", (4,)), reshard_after_forward=2)
    state = fsdp.compress_all_gather(net, "int8")
    seen = _watch(net)
    _backward(net, rank, 0)
    assert torch.equal(seen[0]["weight"], seen[3]["weight"])
    assert state.sent_in_forward > 0
    assert state.sent_in_backward == 0


def test_gathers_within_smaller_groups_stay_exact(tmp_path: Path) -> None:
    run(_smaller_group, 4, str(tmp_path))


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
            net = _sharded(mesh, mp_policy=MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=dtype))
            state = fsdp.compress_all_gather(net, "int8(stochastic=true)", min_compress_bytes=100)
            fsdp.compress_reduce_scatter(net, "int8", min_compress_bytes=100)
        _train(net, rank)
        state.close()
        results.append((_whole(net), state.sent_bytes))
    return results


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_gpu_gives_the_bits_of_the_processor(tmp_path: Path, dtype: torch.dtype) -> None:
    for (net, sent), (found, found_sent) in run(_on_both_sides, 3, str(tmp_path), dtype):
        np.testing.assert_array_equal(found, net)
        assert found_sent == sent


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
        net = _sharded(mesh)
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
    assert state.sent_in_forward == _message("int8", 200 * 40)


def test_parameters_that_make_their_own_bytes_travel_as_they_are(tmp_path: Path) -> None:
    run(_of_their_own, 2, str(tmp_path))


@training.in_process_group
def _misused(rank: int) -> None:
    mesh = init_device_mesh("cpu", (2,))
    with pytest.raises(hp.InvalidArgument, match=r"call fully_shard\(\) first, then compress_all_gather"):
        fsdp.compress_all_gather(nn.Linear(4, 4), "int8")
    with pytest.raises(hp.InvalidArgument, match="needs a codec"):
        fsdp.compress_all_gather(_sharded(mesh))
    with pytest.raises(hp.Unsupported, match="chooses no codec"):
        fsdp.compress_all_gather(_sharded(mesh), "auto")
    with pytest.raises(hp.InvalidArgument, match=r"'1\.5\.weight', which is not one of the 12 parameters"):
        fsdp.compress_all_gather(_sharded(mesh), "int8", codec_for={"1.5.weight": "fp16"})
    for codec in ("onebit", "int8(error_feedback=true)"):
        with pytest.raises(hp.Unsupported, match="without error feedback"):
            fsdp.compress_all_gather(_sharded(mesh), codec)
    with pytest.raises(hp.Mismatch, match=r"rank 1 .* 'codec "):
        fsdp.compress_all_gather(_sharded(mesh), "fp16" if rank == 0 else "int8")
    with pytest.raises(hp.Mismatch, match=r"rank 1 .* 'call compress_reduce_scatter"):
        (fsdp.compress_all_gather if rank == 0 else fsdp.compress_reduce_scatter)(_sharded(mesh), "int8")


def test_misuse_is_named(tmp_path: Path) -> None:
    run(_misused, 2, str(tmp_path))


@training.in_process_group
def _closed(rank: int) -> None:
    """After close(), and with one rank alone, FSDP2 computes with exact weights."""
    net = _sharded(init_device_mesh("cpu", (dist.get_world_size(),)))
    state = fsdp.compress_all_gather(net, "int8")
    seen = _watch(net)
    _train(net, rank, steps=1)
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
