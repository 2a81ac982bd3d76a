# SPDX-License-Identifier: Apache-2.0
"""Whichever way a program begins to use HiPress, no codec's states change in a step that is not finite."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import hipress.torch as hp
from hipress import _core
from hipress.torch import ddp, fsdp
from hipress.torch.process_groups import BackendOptions, gradients
from tests.tiers import usually
from tests.torch.ddp import training
from tests.torch.process_groups.fake_gpu import FakeGpuSide
from tests.torch.ranks import run
from tests.torch.scaling.codecs_with_states import ENCODED, KEEPING, has_factors
from tests.torch.scaling.stand_in import on_a_stand_in

PATTERN = [True, True, False, True, True, True]  # whether the step is finite
_SHAPE = (60, 100)

Values = dict[str, torch.Tensor]


#: By parameter.
CODECS = {f"w{number:02}": text for number, text in enumerate(KEEPING)}


class _Net(nn.Module):
    """Its gradients are what it is called with."""

    def __init__(self, names: Mapping[str, str]) -> None:
        super().__init__()
        for name in names:
            setattr(self, name, nn.Parameter(torch.zeros(_SHAPE)))

    def forward(self, wanted: Values) -> torch.Tensor:
        return torch.stack([(getattr(self, name) * each).sum() for name, each in wanted.items()]).sum()


#: Steps with these gradients, and returns the averages; and all states of this rank.
_Way = tuple[Callable[[Values], Values], Callable[[], Any]]


def _averages(net: nn.Module) -> Values:
    return {name: getattr(each.grad, "_local_tensor", each.grad) for name, each in net.named_parameters()}


def _hook(texts: dict[str, str], carrier: Any) -> _Way:
    model = DistributedDataParallel(_Net(texts), gradient_as_bucket_view=True)
    state = ddp.compress(model, "none", codec_for=texts, carrier=carrier)

    def step(values: Values) -> Values:
        model.zero_grad()
        model(values).backward()
        return _averages(model.module)

    return step, lambda: state.state_dict()["states"]


def _replicas(texts: dict[str, str]) -> _Way:
    mesh = init_device_mesh("cpu", (2, 1), mesh_dim_names=("rep", "shard"))
    net: Any = fully_shard(_Net(texts), mesh=mesh["shard"])
    state = fsdp.compress_replicas(net, mesh["rep"].get_group(), "none", codec_for=texts)

    def step(values: Values) -> Values:
        net.zero_grad()
        net(values).backward()
        return _averages(net)

    return step, lambda: state.state_dict()["states"]


def _backend(texts: dict[str, str]) -> _Way:
    groups = {name: dist.new_group(backend="hipress", pg_options=BackendOptions(text)) for name, text in texts.items()}

    def step(values: Values) -> Values:
        for name, group in groups.items():
            with gradients(name):
                dist.all_reduce(values[name], group=group)
        return values

    return step, lambda: {name: group.state_dict()["states"] for name, group in groups.items()}


def _optimizer(texts: dict[str, str]) -> _Way:
    net = _Net(texts)
    plain = torch.optim.SGD(net.parameters(), lr=0.0)
    optimizer = hp.DistributedOptimizer(plain, net.named_parameters(), codec_for=texts)

    def step(values: Values) -> Values:
        optimizer.zero_grad()
        net(values).backward()
        optimizer.synchronize()
        averages = {name: each.clone() for name, each in _averages(net).items()}
        with optimizer.skip_synchronize():
            optimizer.step()
        return averages

    return step, lambda: hp.codec_states(optimizer, exact=True)


_WAYS: dict[str, Callable[[dict[str, str]], _Way]] = {
    "hook over the group": lambda texts: _hook(texts, "group"),
    "hook over the engine": lambda texts: _hook(texts, "hipress"),
    "replicas": _replicas,
    "backend": _backend,
    "DistributedOptimizer": _optimizer,
}
#: The ways that take whole matrices.
_WHOLE = ("hook over the group", "hook over the engine", "DistributedOptimizer")
_OVER_ENGINE = ("hook over the engine", "DistributedOptimizer")


def _arrays(states: Any, key: str = "") -> dict[str, np.ndarray[Any, Any]]:
    """All float32 values that are not zeros: a state of zeros may be absent, too."""
    if isinstance(states, Mapping):
        return {k: v for name, each in states.items() for k, v in _arrays(each, f"{key} {name!r}").items()}
    values = np.asarray(states)
    return {key: values.copy()} if values.dtype == np.float32 and values.any() else {}


def _gradients(texts: Mapping[str, str], rank: int, step: int) -> Values:
    generator = torch.Generator().manual_seed(10 * step + rank)
    values = {name: torch.randn(_SHAPE, generator=generator) for name in texts}
    if not PATTERN[step] and rank == 1:
        for each in values.values():
            each[33, 7] = torch.nan
    return values


@training.in_process_group
def _steps(rank: int, way: str, texts: dict[str, str], on_gpu: bool) -> None:
    if way in _OVER_ENGINE:
        hp.init()
    stand_in: Any = on_a_stand_in() if on_gpu else nullcontext([])
    with stand_in as sides:
        _follow(rank, texts, *_WAYS[way](texts), sides)


def _follow(rank: int, texts: dict[str, str], step_of: Any, states_of: Any, sides: list[FakeGpuSide]) -> None:
    before: dict[str, np.ndarray[Any, Any]] = {}
    for step, is_finite in enumerate(PATTERN):
        averages = step_of(_gradients(texts, rank, step))
        for side in sides:
            side.synchronize()
        for name, text in texts.items():
            assert bool(torch.isfinite(averages[name]).all()) == is_finite, (step, text)
        after = _arrays(states_of())
        dist.barrier()
        changed = {key for key in before.keys() | after.keys() if not np.array_equal(*_both(key, before, after))}
        for name, text in texts.items():
            assert any(name in key for key in changed) == is_finite, (step, text, changed)
        before = after


def _both(key: str, *states: dict[str, np.ndarray[Any, Any]]) -> list[Any]:
    return [each.get(key, 0) for each in states]


_CASES = [(way, on_gpu) for way in _WAYS for on_gpu in (False, True) if not (on_gpu and way in _OVER_ENGINE)]


@pytest.mark.slow
@pytest.mark.parametrize(("way", "on_gpu"), usually([each for each in _CASES if each != ("backend", True)], _CASES))
def test_no_states_change_in_a_step_that_is_not_finite(tmp_path: Path, way: str, on_gpu: bool) -> None:
    takes_factors = way in _WHOLE and not on_gpu
    texts = {name: text for name, text in CODECS.items() if takes_factors or not has_factors(text)}
    run(_steps, 2, str(tmp_path), way, texts, on_gpu)


@pytest.mark.parametrize("text", ENCODED)
def test_operators_change_no_states_in_a_step_that_is_not_finite(text: str) -> None:
    codec = _core.create_codec(text)
    encode = getattr(torch.ops.hipress, f"{codec.name}_encode")
    options = text.partition("(")[2].rstrip(")")
    count = _SHAPE[0] * _SHAPE[1]
    states = [torch.zeros(-(-count // codec.state_block(each))) for each in codec.states]
    for step, is_finite in enumerate(PATTERN):
        before = [each.clone() for each in states]
        message = encode(_gradients({"w": text}, 1, step)["w"], *states, options=options, step=step)
        assert (message.numel() > 0) == is_finite
        assert all(map(torch.equal, before, states)) == (not is_finite)
