# SPDX-License-Identifier: Apache-2.0
"""compress() finds DistributedDataParallel in what compilers and trainers make of a model, and leaves alone what
DistributedDataParallel leaves alone."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed._composable.replicate import replicate
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import hipress.torch as hp
from hipress.torch import ddp
from hipress.torch.ddp import alone
from tests.torch.ddp import training
from tests.torch.ranks import run

pytestmark = pytest.mark.slow


class _FabricModule(nn.Module):
    """As Lightning Fabric wraps a model: `module` is the user's, and the forward module is the strategy's."""

    def __init__(self, forward_module: nn.Module, original_module: nn.Module) -> None:
        super().__init__()
        self._forward_module = forward_module
        self._original_module = original_module

    @property
    def module(self) -> nn.Module:
        return self._original_module

    def forward(self, inputs: torch.Tensor) -> Any:
        return self._forward_module(inputs)


def _trained(rank: int, how: str) -> tuple[bytes, int]:
    torch.manual_seed(0)
    net = training.Net()
    model: nn.Module
    if how == "replicate":
        model = replicate(net, bucket_cap_mb=0.3)
    elif how == "compiled inside":
        model = DistributedDataParallel(torch.compile(net, backend="eager"), bucket_cap_mb=0.3)
    else:
        model = DistributedDataParallel(net, bucket_cap_mb=0.3)
    if "compiled outside" in how:
        model = torch.compile(model, backend="eager")
    if "fabric" in how:
        model = _FabricModule(model, net)
    state = ddp.compress(model, "onebit", codec_for={"second.weight": "int8"})
    for step in range(3):
        inputs, wanted = training.batch(rank, step)
        (model(inputs) - wanted).square().mean().backward()
        with torch.no_grad():
            for each in net.parameters():
                each -= 0.01 * each.grad
                each.grad = None
    assert state.steps == 3
    assert all(key.split("\n")[0] in dict(net.named_parameters()) for key in state.state_dict()["states"])
    return training.fingerprint(net), state.sent_bytes


@training.in_process_group
def _wrapped(rank: int) -> None:
    wanted = _trained(rank, "plain")
    assert wanted[1] > 0
    with torch.compiler.set_stance("force_eager"):  # compiling takes seconds, and a hook does not see it
        for how in ("compiled outside", "fabric", "fabric, compiled outside", "compiled inside", "replicate"):
            assert _trained(rank, how) == wanted, how


def test_wrapped_and_compiled_models_train_as_distributed_data_parallel(tmp_path: Path) -> None:
    run(_wrapped, 2, str(tmp_path))


@training.in_process_group
def _refused(rank: int) -> None:
    net = training.Net()
    inside = nn.Sequential(nn.Identity(), DistributedDataParallel(net))
    with pytest.raises(hp.InvalidArgument, match=r"a Sequential around a DistributedDataParallel: .* its '1'"):
        ddp.compress(inside, "onebit")
    sharded = fully_shard(nn.Linear(40, 40))
    with pytest.raises(hp.InvalidArgument, match=r"fully_shard\(\) shards the model: call .*compress_replicas"):
        ddp.compress(sharded, "onebit")
    with pytest.raises(hp.InvalidArgument, match=r"the model is a Net: wrap it in torch"):
        ddp.compress(training.Net(), "onebit")
    with pytest.raises(hp.InvalidArgument, match="the model is a dict, not a"):
        ddp.compress({}, "onebit")  # type: ignore[arg-type]


def test_models_that_are_not_replicated_are_refused_with_the_call_to_make(tmp_path: Path) -> None:
    run(_refused, 2, str(tmp_path))


class _Sharded(nn.Module):
    """A model whose embedding each rank has rows of its own of, as TorchRec makes them."""

    def __init__(self, rank: int) -> None:
        super().__init__()
        self.table = nn.Embedding(1000 + rank, 40)
        self.net = training.Net()

    def forward(self, indices: torch.Tensor) -> Any:
        return self.net(self.table(indices))


@training.in_process_group
def _ignored(rank: int, carrier: ddp.state.Carrier) -> bytes:
    if carrier == "hipress":
        hp.init()
    torch.manual_seed(0)
    net = _Sharded(rank)
    for each, first in ((net, "table.weight"), (net.net, None)):
        names = [first] if first else []
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(each, names)
    model = DistributedDataParallel(net)
    state = ddp.compress(model, "int8(error_feedback=true)", carrier=carrier)
    own = torch.arange(16) * (rank + 1)
    model(own).square().mean().backward()
    assert net.table.weight.grad is not None
    assert set(own.tolist()) >= set(net.table.weight.grad.norm(dim=1).nonzero().flatten().tolist())  # not averaged
    assert "table.weight" not in str(list(state.state_dict()["states"]))
    return training.fingerprint(net.net)


@pytest.mark.parametrize("carrier", ["group", "hipress"])
def test_parameters_that_ddp_ignores_are_left_alone(tmp_path: Path, carrier: str) -> None:
    assert len(set(run(_ignored, 2, str(tmp_path), carrier))) == 1


def _alone(folder: str, how: str) -> list[str]:
    said: list[str] = []
    alone._said.clear()
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("hipress").addHandler(handler)
    if how == "world of one":
        dist.init_process_group("gloo", store=dist.FileStore(f"{folder}/store", 1), rank=0, world_size=1)
    try:
        nets = [training.Net() for _ in range(2)]
        for net in nets:
            state = ddp.compress(net, "onebit", carrier="hipress" if how == "engine" else "group")
            net(training.batch(0, 0)[0]).sum().backward()
            assert (state.steps, state.sent_bytes) == (0, 0)
            state.load_state_dict(state.state_dict())
            state.load_states_of(state.states_of_all())
            state.close()
        with pytest.raises(hp.InvalidArgument, match="onebt"):
            ddp.compress(nets[0], "onebt")
        with pytest.raises(hp.InvalidArgument, match=r"'frist.weight', which is not one of"):
            ddp.compress(nets[0], "onebit", codec_for={"frist.weight": "fp16"})
    finally:
        if how == "world of one":
            dist.destroy_process_group()
    return said


@pytest.mark.parametrize("how", ["no group", "world of one", "engine"])
def test_one_process_trains_as_without_the_hook_and_is_told_once(tmp_path: Path, how: str) -> None:
    (said,) = run(_alone, 1, str(tmp_path), how)
    assert len([text for text in said if "no gradients to compress" in text]) == 1


@training.in_process_group
def _alone_in_ddp(rank: int) -> tuple[bytes, bytes]:
    results = []
    for codec in (None, "onebit"):
        torch.manual_seed(0)
        model = DistributedDataParallel(training.Net())
        if codec is not None:
            state = ddp.compress(model, codec)
        for step in range(3):
            model(training.batch(rank, step)[0]).square().mean().backward()
        results.append(b"".join(each.grad.numpy().tobytes() for each in model.parameters()))
    assert (state.steps, state.sent_bytes, state.state_dict()["states"]) == (3, 0, {})
    return results[0], results[1]


def test_one_process_with_ddp_loses_nothing(tmp_path: Path) -> None:
    ((plain, hooked),) = run(_alone_in_ddp, 1, str(tmp_path))
    assert plain == hooked


class _Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(100, 40, bias=False)
        self.head = nn.Linear(100, 40, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, inputs: torch.Tensor) -> Any:
        return self.embed(inputs) + self.head(inputs)


@training.in_process_group
def _wrong_states(_rank: int) -> None:
    tied = DistributedDataParallel(_Tied())
    with pytest.raises(hp.InvalidArgument, match=r"'head.weight', which is tied to 'embed.weight'"):
        ddp.compress(tied, "onebit", codec_for={"head.weight": "fp16"})
    model = DistributedDataParallel(training.Net())
    for options, text in [
        ({"codec": None}, "needs a codec"),
        ({"codec": "onebit", "codec_for": {"first.weight": None}}, r"codec_for\['first.weight'\]=None"),
    ]:
        with pytest.raises(hp.InvalidArgument, match=text):
            ddp.compress(model, **options)  # type: ignore[arg-type]
    state = ddp.compress(model, "onebit")
    for wrong, text in [
        ([], "the state is a list: give what"),
        ({}, "the state is an empty dict: give what"),
        (model.module.state_dict(), "a dict with 'first.weight', as a model's own"),
    ]:
        with pytest.raises(hp.InvalidArgument, match=text):
            state.load_state_dict(wrong)  # type: ignore[arg-type]
    with pytest.raises(hp.InvalidArgument, match="takes a list with the states of all ranks"):
        state.load_states_of(state.state_dict())  # type: ignore[arg-type]
    model(training.batch(0, 0)[0]).sum().backward()
    narrow = training.Net()
    narrow.second = nn.Linear(300, 160)
    narrow.spare, narrow.norm, narrow.last = nn.Linear(160, 160), nn.LayerNorm(160), nn.Linear(160, 1)
    other = ddp.compress(DistributedDataParallel(narrow), "onebit")
    with pytest.raises(hp.InvalidArgument, match=r"a parameter with \d+ elements; the model's '\w+.weight' has \d+"):
        other.load_state_dict(state.state_dict())
    saved = state.state_dict()
    larger = ddp.compress(DistributedDataParallel(training.Net()), "onebit")
    del saved["states"]
    with pytest.raises(hp.InvalidArgument, match="a dict with 'steps'"):
        larger.load_state_dict(saved)


def test_wrong_states_and_codecs_are_named(tmp_path: Path) -> None:
    run(_wrong_states, 2, str(tmp_path))


@training.in_process_group
def _narrower(_rank: int) -> str:
    """Loads the states of a smaller parameter into a larger one."""
    small, large = nn.Linear(40, 100, bias=False), nn.Linear(40, 300, bias=False)
    states = []
    for net in (small, large):
        model = DistributedDataParallel(net)
        states.append(ddp.compress(model, "onebit"))
        model(torch.ones(4, 40)).sum().backward()
    with pytest.raises(hp.InvalidArgument) as caught:
        states[1].load_state_dict(states[0].state_dict())
    return str(caught.value)


def test_a_state_of_another_shape_is_not_blamed_on_another_rank(tmp_path: Path) -> None:
    for text in run(_narrower, 2, str(tmp_path)):
        assert "of a parameter with 4000 elements; the model's 'weight' has 12000" in text
