# SPDX-License-Identifier: Apache-2.0
"""The hook works with the usual ways of using DistributedDataParallel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import hipress.torch as hp
from hipress.torch import ddp
from tests.torch.ddp import training
from tests.torch.ranks import run

pytestmark = pytest.mark.slow

CARRIERS = ["group", "hipress"]


def _one_step(model: nn.Module, rank: int, step: int, dtype: torch.dtype = torch.float32) -> None:
    inputs, wanted = training.batch(rank, step)
    (model(inputs.to(dtype)) - wanted.to(dtype)).square().mean().backward()


@training.in_process_group
def _alike(rank: int, carrier: ddp.state.Carrier, how: str) -> bytes:
    """Trains some steps with onebit and returns the parameters."""
    if carrier == "hipress":
        hp.init()
    torch.manual_seed(0)
    net = training.Net()
    dtype = {"bfloat16": torch.bfloat16, "float16": torch.float16}.get(how, torch.float32)
    if how == "unused":
        training.without_spare_on_odd_ranks(net, rank)
    model = DistributedDataParallel(net.to(dtype), bucket_cap_mb=0.3, find_unused_parameters=how == "unused")
    state = ddp.compress(model, "onebit", carrier=carrier)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    if how == "two models":
        other = DistributedDataParallel(training.Net())
        ddp.compress(other, "fp16", carrier=carrier)
    for step in range(4):
        optimizer.zero_grad()
        if how == "no_sync":
            with model.no_sync():
                _one_step(model, rank, 100 + step)
        if how == "two models":
            _one_step(other, rank, step)
        _one_step(model, rank, step, dtype)
        optimizer.step()
    assert isinstance(state, ddp.HookState)
    return training.fingerprint(net)


@pytest.mark.parametrize("carrier", CARRIERS)
def test_replicas_stay_identical(tmp_path: Path, carrier: str) -> None:
    for how in ("unused", "no_sync", "bfloat16", "float16", "two models"):
        folder = tmp_path / how
        folder.mkdir()
        assert len(set(run(_alike, 2, str(folder), carrier, how))) == 1, how


#: Arguments of join(). A rank that has no inputs left gives zeros, and is counted or not.
_JOINS: list[dict[str, bool]] = [{}, {"divide_by_initial_world_size": False}]


@training.in_process_group
def _uneven(rank: int, carrier: ddp.state.Carrier) -> None:
    if carrier == "hipress":
        hp.init()
    for join in _JOINS:
        results = []
        for codec in (None, "none", "fp16"):
            torch.manual_seed(0)
            model = DistributedDataParallel(training.Net(), bucket_cap_mb=0.3)
            if codec is not None:
                ddp.compress(model, codec, carrier=carrier)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            with model.join(**join):
                for step in range(3 + 2 * rank):
                    optimizer.zero_grad()
                    _one_step(model, rank, step)
                    optimizer.step()
            results.append(training.fingerprint(model))
        values = [np.frombuffer(each, np.float32) for each in results]
        np.testing.assert_allclose(values[2], values[0], atol=1e-4)
        if join or carrier == "hipress":
            np.testing.assert_allclose(values[1], values[0], rtol=1e-5, atol=1e-7)
        else:
            assert results[1] == results[0]


@pytest.mark.parametrize("carrier", CARRIERS)
def test_join_with_uneven_inputs_is_as_without_the_hook(tmp_path: Path, carrier: str) -> None:
    run(_uneven, 2, str(tmp_path), carrier)


@training.in_process_group
def _early(rank: int) -> str:
    """An early end of all ranks, and join() that is off, in which nobody counts."""
    model = DistributedDataParallel(training.Net())
    ddp.compress(model, "onebit")

    def until_one_rank_ends() -> None:
        with model.join(throw_on_early_termination=True, divide_by_initial_world_size=False):
            for step in range(2 + 2 * rank):
                _one_step(model, rank, step)

    with pytest.raises(RuntimeError, match="exhausted") as caught:
        until_one_rank_ends()
    plain = DistributedDataParallel(training.Net())
    plain.load_state_dict(model.state_dict())
    hooked = DistributedDataParallel(training.Net())
    hooked.load_state_dict(model.state_dict())
    ddp.compress(hooked, "none")
    for each in (plain, hooked):
        with each.join(enable=False, divide_by_initial_world_size=False):
            _one_step(each, rank, 0)
    for first, second in zip(plain.parameters(), hooked.parameters(), strict=True):
        assert torch.equal(first.grad, second.grad)
    return str(caught.value)


def test_join_ends_early_on_all_ranks_and_can_be_off(tmp_path: Path) -> None:
    assert len(run(_early, 2, str(tmp_path))) == 2


class _Embedded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(500, 16, sparse=True)
        self.net = training.Net()
        self.project = nn.Linear(16, 40)

    def forward(self, indices: torch.Tensor) -> Any:
        return self.net(self.project(self.table(indices)))


@training.in_process_group
def _sparse(rank: int, hooked: bool) -> bytes:
    torch.manual_seed(0)
    model = DistributedDataParallel(_Embedded())
    if hooked:
        ddp.compress(model, "none")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(3):
        optimizer.zero_grad()
        indices = torch.arange(8) * (rank + 2) + step
        model(indices).square().mean().backward()
        optimizer.step()
    return training.fingerprint(model)


def test_sparse_gradients_are_averaged_exactly(tmp_path: Path) -> None:
    for each in ("plain", "hooked"):
        (tmp_path / each).mkdir()
    assert run(_sparse, 2, str(tmp_path / "hooked"), True) == run(_sparse, 2, str(tmp_path / "plain"), False)


@training.in_process_group
def _warmed_up(rank: int, steps: int) -> tuple[bytes, bytes, bytes]:
    """The parameters after `steps` steps of torch alone, with a warm-up of as many steps, and without a warm-up."""
    results = []
    for warmup in (None, steps, 0):
        torch.manual_seed(0)
        model = DistributedDataParallel(training.Net())
        if warmup is not None:
            ddp.compress(model, "onebit", warmup=warmup)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for step in range(steps):
            optimizer.zero_grad()
            _one_step(model, rank, step)
            optimizer.step()
        results.append(training.fingerprint(model))
    return results[0], results[1], results[2]


def test_warm_up_is_exact(tmp_path: Path) -> None:
    for plain, warm, compressed in run(_warmed_up, 2, str(tmp_path), 4):
        assert warm == plain
        assert compressed != plain


def _with_codecs(model: DistributedDataParallel, rank: int, steps: range) -> bytes:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in steps:
        optimizer.zero_grad()
        _one_step(model, rank, step)
        optimizer.step()
    return training.fingerprint(model)


@training.in_process_group
def _warmed_up_with(rank: int, warmup: hp.Warmup, codecs: list[str], carrier: str) -> list[bytes]:
    """The parameters after each stage of the warm-up. Over a process group it also checks each stage against a training
    that begins with the stage's codec and the states of the stage before."""
    if carrier == "hipress":
        hp.init()
    seen = []
    model = DistributedDataParallel(_net())
    ddp.compress(model, codecs[-1], warmup=warmup, carrier=carrier)
    for first in range(0, 6, 2):
        seen.append(_with_codecs(model, rank, range(first, first + 2)))
    if carrier == "hipress":
        return seen
    kept, net = None, _net()
    for place, first in enumerate(range(0, 6, 2)):
        other = DistributedDataParallel(net)
        by_hand = ddp.compress(other, codecs[place])
        if kept is not None:
            by_hand.load_state_dict(kept)
        assert _with_codecs(other, rank, range(first, first + 2)) == seen[place], codecs[place]
        kept = by_hand.state_dict()
    return seen


def _net() -> training.Net:
    torch.manual_seed(0)
    return training.Net()


@pytest.mark.parametrize(
    ("warmup", "codecs"),
    [
        (hp.Warmup(4, "int8"), ["int8", "int8", "onebit"]),
        (hp.Warmup(4, ratios=(0.4, 0.1)), ["graddrop(ratio=0.4)", "graddrop(ratio=0.1)", "graddrop(ratio=0.01)"]),
        (hp.Warmup(2, "onebit"), ["onebit", "graddrop", "graddrop"]),
    ],
)
def test_warm_up_with_other_codecs(tmp_path: Path, warmup: hp.Warmup, codecs: list[str]) -> None:
    by_carrier = []
    for carrier in ("group", "hipress"):
        (tmp_path / carrier).mkdir()
        first, second = run(_warmed_up_with, 2, str(tmp_path / carrier), warmup, codecs, carrier)
        assert first == second
        by_carrier.append(first)
    assert len(set(by_carrier[0])) == 3


@training.in_process_group
def _lossy_warm_up(rank: int) -> None:
    with pytest.raises(hp.InvalidArgument, match=r"'onebit' keeps values \(residual\) that the next codec, 'fp16'"):
        ddp.compress(DistributedDataParallel(_net()), "fp16", warmup=hp.Warmup(2, "onebit"))


def test_a_warm_up_that_would_lose_values_is_refused(tmp_path: Path) -> None:
    run(_lossy_warm_up, 1, str(tmp_path))


@training.in_process_group
def _compiled(rank: int) -> bytes:
    torch.manual_seed(0)
    model = DistributedDataParallel(training.Net(), bucket_cap_mb=2)
    ddp.compress(model, "onebit")
    compiled = torch.compile(model, backend="aot_eager")
    for step in range(2):
        _one_step(compiled, rank, step)
    return training.fingerprint(model)


def test_torch_compile_calls_the_hook(tmp_path: Path) -> None:
    assert len(set(run(_compiled, 2, str(tmp_path)))) == 1
