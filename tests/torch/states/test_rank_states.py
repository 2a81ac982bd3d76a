# SPDX-License-Identifier: Apache-2.0
"""torch.distributed.checkpoint brings each rank's own states into a fresh job, or the job refuses them."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import hipress.torch as hp
from hipress.errors import InvalidArgument
from hipress.torch import ddp, fsdp
from hipress.torch.optim import OneBitAdam
from hipress.torch.process_groups import BackendOptions, gradients
from hipress.torch.states.state_sum import sum_of
from tests.torch.ddp.training import in_process_group
from tests.torch.ranks import run

pytestmark = pytest.mark.slow

#: A model, what takes an optimizer's step on it, and what keeps states.
Trained = tuple[nn.Module, Callable[[int], None], Any]


def _alone(function: Callable[..., Any]) -> Callable[..., Any]:
    """As in_process_group(). Groups that models and hooks have made end before the group of all ranks does."""

    @functools.wraps(function)
    def inside(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        finally:
            gc.collect()

    return in_process_group(inside)


def _net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(48, 64), nn.Tanh(), nn.Linear(64, 32))


def _stepping(net: nn.Module, optimizer: torch.optim.Optimizer) -> Callable[[int], None]:
    def take(step: int) -> None:
        generator = torch.Generator().manual_seed(1000 * step + dist.get_rank())
        optimizer.zero_grad()
        net(torch.randn(8, 48, generator=generator)).square().mean().backward()
        optimizer.step()

    return take


def _sgd(net: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(net.parameters(), 0.05)


def _hook(carrier: str) -> Trained:
    net = DistributedDataParallel(_net())
    state = ddp.compress(net, "onebit", carrier=carrier)
    return net, _stepping(net, _sgd(net)), state


def _replicas() -> Trained:
    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(), 1), mesh_dim_names=("host", "shard"))
    net = _net()
    fully_shard(net, mesh=mesh["shard"])
    state = fsdp.compress_replicas(net, mesh["host"].get_group(), "onebit")
    return net, _stepping(net, _sgd(net)), state


def _shards() -> Trained:
    net = _net()
    fully_shard(net, mesh=dist.init_device_mesh("cpu", (dist.get_world_size(),)))
    return net, _stepping(net, _sgd(net)), fsdp.compress_reduce_scatter(net, "terngrad")


def _hybrid() -> Trained:
    names, override = ("host", "shard"), {"host": ("hipress", BackendOptions(codec="onebit"))}
    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(), 1), mesh_dim_names=names, backend_override=override)
    net = _net()
    fully_shard(net, mesh=mesh)
    state = fsdp.compress_hybrid(net)
    return net, _stepping(net, _sgd(net)), state


def _backend() -> Trained:
    group = dist.new_group(backend="hipress", pg_options=BackendOptions(codec="onebit"))
    net = _net()
    optimizer = _sgd(net)

    def averaged(*_: Any) -> None:
        for name, each in net.named_parameters():
            with gradients(name):
                dist.all_reduce(each.grad, op=dist.ReduceOp.AVG, group=group)

    optimizer.register_step_pre_hook(averaged)
    return net, _stepping(net, optimizer), group


def _distributed() -> Trained:
    net = _net()
    optimizer = hp.DistributedOptimizer(_sgd(net), net.named_parameters(), codec="onebit")
    return net, _stepping(net, optimizer), optimizer


def _adam(**carrier: Any) -> Trained:
    net = _net()
    optimizer = OneBitAdam(net.named_parameters(), lr=1e-3, freeze_step=2, **carrier)
    return net, _stepping(net, optimizer), optimizer


def _diloco(**options: Any) -> Trained:
    net = _net()
    inner = _sgd(net)
    diloco = hp.DiLoCo(net, inner, sync_every=2, **options)
    return net, _stepping(net, inner), diloco


_WAYS: dict[str, Callable[[], Trained]] = {
    "hook over the group": lambda: _hook("group"),
    "hook over the engine": lambda: _hook("hipress"),
    "replicas": _replicas,
    "shards": _shards,
    "hybrid": _hybrid,
    "backend": _backend,
    "DistributedOptimizer": _distributed,
    "OneBitAdam over the engine": _adam,
    "OneBitAdam over the group": lambda: _adam(group=dist.group.WORLD),
    "DiLoCo over the group": lambda: _diloco(group=dist.group.WORLD, codec="onebit"),
    "DiLoCo over the engine": lambda: _diloco(codec="onebit"),
    "SparseLoCo": lambda: _diloco(group=dist.group.WORLD, preset="sparseloco"),
}


def _of(keeper: Any) -> dict[str, Any]:
    if isinstance(keeper, torch.optim.Optimizer) and not isinstance(keeper, OneBitAdam):
        return hp.codec_states(keeper, exact=True)
    if isinstance(keeper, hp.DiLoCo) and keeper.uses_engine_codecs:
        return {"diloco": keeper.state_dict(), "codecs": hp.codec_states(keeper, exact=True)}
    return dict(keeper.state_dict())


def _values(net: nn.Module) -> dict[str, Any]:
    return {
        name: getattr(each, "full_tensor", lambda each=each: each)().detach().numpy().copy()
        for name, each in net.named_parameters()
    }


@_alone
def _continued(_rank: int, folder: str) -> dict[str, bool]:
    """Whether a fresh job that loads a checkpoint goes on with the bits of the job that saved it."""
    equal = {}
    for way, make in _WAYS.items():
        path = f"{folder}/{way}"
        hp.init()
        net, take, keeper = make()
        for step in range(3):
            take(step)
        # Between exchanges each rank has parameters of its own.
        parts = {"model": hp.RankStates(net), "hipress": hp.RankStates(keeper)}
        dcp.save(parts, checkpoint_id=path)
        for step in range(3, 6):
            take(step)
        expected = _values(net)
        del net, take, keeper, parts
        hp.shutdown()  # a fresh engine, which shares out its work as the first one did
        hp.init()
        net, take, keeper = make()
        dcp.load({"model": hp.RankStates(net, path), "hipress": hp.RankStates(keeper, path)}, checkpoint_id=path)
        for step in range(3, 6):
            take(step)
        equal[way] = all(np.array_equal(each, expected[name]) for name, each in _values(net).items())
        del net, take, keeper
        hp.shutdown()
    return equal


def test_a_fresh_job_goes_on_bit_for_bit(tmp_path: Path) -> None:
    for equal in run(_continued, 2, str(tmp_path), str(tmp_path)):
        assert equal == dict.fromkeys(_WAYS, True)


_RESHARDED = (
    *("hook over the group", "hook over the engine", "replicas", "DistributedOptimizer", "SparseLoCo"),
    *("DiLoCo over the engine", "hybrid", "backend"),
)


#: Their state is of one number of ranks.
_OF_ONE_SIZE = ("OneBitAdam over the engine", "OneBitAdam over the group")


@_alone
def _saved(rank: int, folder: str) -> None:
    hp.init()
    for way in (*_RESHARDED, *_OF_ONE_SIZE):
        _, take, keeper = _WAYS[way]()
        for step in range(4):
            take(step)
        dcp.save({"hipress": hp.RankStates(keeper)}, checkpoint_id=f"{folder}/{way}")
        torch.save(_of(keeper), f"{folder}/{way}-{rank}.pt")
        del take, keeper


@_alone
def _loaded(_rank: int, folder: str, before: int) -> dict[str, bool]:
    """Whether what a checkpoint of `before` ranks brings is what the states of all old ranks bring."""
    equal = {}
    for way in _RESHARDED:
        path = f"{folder}/{way}"
        found = []
        for through_dcp in (True, False):
            hp.init()  # afresh: two lists of one engine share out their work differently
            _, _take, keeper = _WAYS[way]()
            if through_dcp:
                with pytest.raises(BaseException, match=r"Missing key in checkpoint state_dict: hipress\.rank"):
                    dcp.load({"hipress": hp.RankStates(keeper)}, checkpoint_id=path)
                dcp.load({"hipress": hp.RankStates(keeper, path)}, checkpoint_id=path)
            else:
                states = [torch.load(f"{path}-{old}.pt", weights_only=False) for old in range(before)]
                _load_all(keeper, states)
            found.append(sum_of(_of(keeper)))
            del _take, keeper
            hp.shutdown()
        equal[way] = found[0] == found[1]
    return equal


def _load_all(keeper: Any, states: list[Any]) -> None:
    if isinstance(keeper, hp.DiLoCo) and keeper.uses_engine_codecs:
        keeper.load_state_dict(states[0]["diloco"])
        hp.load_codec_states(keeper, [each["codecs"] for each in states])
    elif isinstance(keeper, hp.DiLoCo):
        keeper.load_state_dict(states)
    elif isinstance(keeper, torch.optim.Optimizer):
        hp.load_codec_states(keeper, states)
    else:
        keeper.load_states_of(states)


@_alone
def _refused(_rank: int, folder: str) -> dict[str, str]:
    """What each way says to a checkpoint of another number of ranks."""
    said = {}
    for way in _OF_ONE_SIZE:
        hp.init()
        _, _take, keeper = _WAYS[way]()
        with pytest.raises(BaseException, match="takes only states of as many ranks") as error:
            dcp.load({"hipress": hp.RankStates(keeper, f"{folder}/{way}")}, checkpoint_id=f"{folder}/{way}")
        said[way] = str(error.value)
        del _take, keeper
        hp.shutdown()
    return said


@pytest.mark.parametrize("world", [1, 3])
def test_another_number_of_ranks_gets_all_ranks_states_or_is_refused(tmp_path: Path, world: int) -> None:
    run(_saved, 2, str(tmp_path), str(tmp_path))
    for name in ("later", "refused"):
        (tmp_path / name).mkdir()
    for equal in run(_loaded, world, str(tmp_path / "later"), str(tmp_path), 2):
        assert equal == dict.fromkeys(_RESHARDED, True)
    for said in run(_refused, world, str(tmp_path / "refused"), str(tmp_path)):
        for way, text in said.items():
            assert f"takes only states of as many ranks as there are: {world}" in text, (way, text)


@_alone
def _of_an_earlier_version(_rank: int) -> None:
    _, take, keeper = _hybrid()
    take(0)
    state = keeper.state_dict()
    del state["shards"]
    with pytest.raises(InvalidArgument, match="state 0 of 1 does not say of which shards it is"):
        keeper.load_states_of([state])


def test_a_state_that_does_not_name_its_shards_is_refused_with_that_reason(tmp_path: Path) -> None:
    run(_of_an_earlier_version, 2, str(tmp_path))


_PAID_BACK = ("group", "hipress", "DistributedOptimizer")


def _still(way: str, codec: str) -> tuple[nn.Module, torch.optim.Optimizer, Any]:
    """A model whose parameters stay what they are."""
    hp.init()
    net: nn.Module = _net()
    optimizer: Any = torch.optim.SGD(net.parameters(), 0.0)
    if way == "DistributedOptimizer":
        optimizer = hp.DistributedOptimizer(optimizer, net.named_parameters(), codec=codec)
        return net, optimizer, optimizer
    net = DistributedDataParallel(net)
    return net, optimizer, ddp.compress(net, codec, carrier=way)


def _lacking(net: nn.Module, optimizer: torch.optim.Optimizer, steps: range) -> torch.Tensor:
    """What the averages of a matrix lack of the exact ones."""
    lacking = torch.zeros(64, 48)
    for step in steps:
        generator = torch.Generator().manual_seed(1000 * step + dist.get_rank())
        inputs, plain = torch.randn(8, 48, generator=generator), _net()
        for each in (net, plain):
            each.zero_grad()
            each(inputs).square().mean().backward()
        optimizer.step()
        exact, got = plain[0].weight.grad, next(net.parameters()).grad
        assert exact is not None
        assert got is not None
        dist.all_reduce(exact)
        lacking += exact / dist.get_world_size() - got
    return lacking


@_alone
def _two(rank: int, folder: str) -> None:
    for way in _PAID_BACK:
        net, optimizer, keeper = _still(way, "onebit")
        lacking = _lacking(net, optimizer, range(3))
        dcp.save({"hipress": hp.RankStates(keeper)}, checkpoint_id=f"{folder}/{way}")
        if rank == 0:
            torch.save(lacking, f"{folder}/{way}.pt")
        del net, optimizer, keeper
        hp.shutdown()


@_alone
def _one(_rank: int, folder: str) -> dict[str, tuple[float, float]]:
    """What two ranks held back, and how much of it one rank has not got in its first step."""
    left = {}
    for way in _PAID_BACK:
        net, optimizer, keeper = _still(way, "none")
        path = f"{folder}/{way}"
        dcp.load({"hipress": hp.RankStates(keeper, path)}, checkpoint_id=path)
        held_back = torch.load(f"{path}.pt")
        rest = held_back + _lacking(net, optimizer, range(3, 4))
        left[way] = float(held_back.abs().max()), float(rest.abs().max())
        del net, optimizer, keeper
        hp.shutdown()
    return left


def test_one_rank_gets_what_two_held_back(tmp_path: Path) -> None:
    run(_two, 2, str(tmp_path), str(tmp_path))
    (tmp_path / "later").mkdir()
    (left,) = run(_one, 1, str(tmp_path / "later"), str(tmp_path))
    for way, (held_back, rest) in left.items():
        assert held_back > 1e-3, way
        assert rest < 1e-3 * held_back, way


@_alone
def _without_rank_states(_rank: int, folder: str) -> dict[str, list[str]]:
    """What loading says in a fresh job, and in one whose states have the same keys, when the states were given to
    torch.distributed.checkpoint as they are."""
    hp.init()
    said: dict[str, list[str]] = {}
    for way, make in _WAYS.items():
        if way in ("shards", "DiLoCo over the engine"):  # their state_dict() is the same on all ranks
            continue
        path = f"{folder}/raw {way}"
        _, take, keeper = make()
        for step in range(4):
            take(step)
        states = _of(keeper)
        dcp.save({"hipress": states}, checkpoint_id=path)
        said[way] = []
        _, _, fresh = make()
        for loaded in (fresh, keeper):
            states = _of(loaded)
            dcp.load({"hipress": states}, checkpoint_id=path, planner=dcp.DefaultLoadPlanner(allow_partial_load=True))
            try:
                if way == "DistributedOptimizer":
                    hp.load_codec_states(loaded, states)
                else:
                    loaded.load_state_dict(states)
            except (InvalidArgument, hp.Mismatch) as error:
                said[way].append(str(error))
            else:
                said[way].append("")
        del take, keeper, fresh, loaded
    return said


def test_states_that_were_given_as_they_are_are_refused(tmp_path: Path) -> None:
    ranks = run(_without_rank_states, 2, str(tmp_path), str(tmp_path))
    for way in ranks[0]:
        fresh, same = ([each[way][place] for each in ranks] for place in range(2))
        assert all(fresh), (way, fresh)
        # One rank may have got all of its own.
        assert any(same), (way, same)
        assert any("RankStates" in text for text in fresh + same), (way, fresh, same)


def test_what_keeps_nothing_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="a dict keeps nothing of HiPress"):
        hp.RankStates({})
