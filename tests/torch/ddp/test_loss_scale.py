# SPDX-License-Identifier: Apache-2.0
"""Residuals follow a changed loss scale on every way in; a scaler that was not handed over is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import hipress.torch as hp
from hipress.errors import HipressError, InvalidArgument, Unsupported
from hipress.torch import ddp
from hipress.torch.scaling.loss_scale import LossScale
from tests.torch.ddp import training
from tests.torch.models import loss, mlp
from tests.torch.ranks import run

pytestmark = pytest.mark.slow

CODECS = ["onebit", "topk(ratio=0.05)", "int4", "powersgd"]
#: Five steps, seven overflows in a row (65536 becomes 512), then five steps.
OVERFLOWS = range(5, 12)
STEPS = 17


def _wrapped(way: str, model: nn.Module, **options: Any) -> tuple[nn.Module, torch.optim.Optimizer]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    if way == "optimizer":
        return model, hp.DistributedOptimizer(optimizer, model.named_parameters(), **options)
    model = DistributedDataParallel(model, bucket_cap_mb=0.1)
    ddp.compress(model, carrier=way, **options)
    return model, optimizer


def _unscaled_gradients(rank: int, way: str, codec: str, scales: bool) -> list[bytes]:
    """The gradients of the good steps, unscaled. Without `scales` the process has no scaler, and only good steps."""
    scaler = torch.amp.GradScaler("cpu") if scales else None
    options = {} if scaler is None else {"scaler": scaler}
    model, optimizer = _wrapped(way, mlp(), codec=codec, **options)
    seen = []
    for step in range(STEPS):
        bad = step in OVERFLOWS
        if bad and scaler is None:
            continue
        optimizer.zero_grad()
        value = loss(model, rank, step) * (float("inf") if bad and rank == 0 else 1.0)
        if scaler is None:
            value.backward()
            optimizer.step()
        else:
            scaler.scale(value).backward()
            scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
        if not bad:
            seen.append(b"".join(each.grad.numpy().tobytes() for each in model.parameters()))
    assert scaler is None or scaler.get_scale() == 512.0
    return seen


@training.in_process_group
def _of_all_codecs(rank: int, way: str, scales: bool) -> dict[str, list[bytes]]:
    hp.init()
    return {codec: _unscaled_gradients(rank, way, codec, scales) for codec in CODECS}


@pytest.mark.parametrize("way", ["optimizer", "hipress", "group"])
def test_gradients_keep_their_size_when_the_scale_falls(tmp_path: Path, way: str) -> None:
    """To the bit: all scales are powers of two, and steps that overflow change no state."""
    by_scale = []
    for scales in (True, False):  # one job each: a parameter's aggregator depends on the models before in a job
        folder = tmp_path / str(scales)
        folder.mkdir()
        by_scale.append(run(_of_all_codecs, 2, str(folder), way, scales))
    for scaled, plain in zip(*by_scale, strict=True):
        assert [codec for codec in CODECS if scaled[codec] != plain[codec]] == []


@training.in_process_group
def _not_handed_over(rank: int, way: str) -> list[str]:
    hp.init()
    said = []
    scaler = torch.amp.GradScaler("cpu")
    for options in ({"codec": "onebit"}, {"codec": "int8"}, {"codec": "onebit", "scaler": lambda: 1.0}):
        model, _ = _wrapped(way, mlp(), **options)
        try:
            scaler.scale(loss(model, rank, 0)).backward()
            said.append("")
        except (HipressError, RuntimeError) as error:
            said.append(f"{type(error).__name__}: {error}")
    return said


@pytest.mark.parametrize("way", ["optimizer", "hipress", "group"])
def test_a_scaler_that_was_not_handed_over_is_refused(tmp_path: Path, way: str) -> None:
    for onebit, int8, function in run(_not_handed_over, 2, str(tmp_path), way):
        assert "scaler=scaler" in onebit
        assert onebit.startswith("InvalidArgument") or way != "optimizer"
        assert not int8
        assert not function


def _saved_and_loaded(scale: float) -> list[bytes]:
    """Saves in the middle of a training with a loss scale, and goes on with another one."""
    hp.init()
    gradients = []
    before: Any = None
    for first, last, now in ((0, 4, scale), (4, 8, 2 * scale)):
        model = mlp()
        options = {"codec": "onebit", "scaler": lambda now=now: now}
        optimizer = hp.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.01), **options)
        if before is not None:
            hp.load_codec_states(optimizer, before)
        for step in range(first, last):
            optimizer.zero_grad()
            (loss(model, hp.rank(), step) * now).backward()
            gradients.append(b"".join((each.grad / now).numpy().tobytes() for each in model.parameters()))
        before = hp.codec_states(optimizer, exact=True)
    return gradients


def test_saved_states_have_the_unit_of_the_gradient() -> None:
    assert run(_saved_and_loaded, 2, 1024.0) == run(_saved_and_loaded, 2, 1.0)


def _own_optimizer() -> bool:
    hp.init()
    model = mlp()
    optimizer = hp.optim.OneBitAdam(model.named_parameters(), lr=0.01, freeze_step=1)
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(loss(model, hp.rank(), 0)).backward()
    with pytest.raises(Unsupported, match="bfloat16"):
        scaler.step(optimizer)
    return True


def test_optimizers_that_exchange_values_themselves_refuse_a_scaler() -> None:
    assert all(run(_own_optimizer, 2))


def test_what_gives_the_scale() -> None:
    class Scaled:
        def get_scale(self) -> float:
            return 8.0

    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    assert LossScale(None, "").now() == 1.0
    assert LossScale(Scaled(), "").now() == 8.0
    assert LossScale(lambda: 2.0, "").now() == 2.0
    assert LossScale(scaler, "").now() == 4.0
    assert LossScale(torch.amp.GradScaler("cpu", enabled=False), "").now() == 1.0
    given = LossScale(scaler, "")
    scaler.scale(torch.ones(()))
    assert given.now() == 4.0
    scaler.update(new_scale=16.0)
    assert given.now() == 16.0
    with pytest.raises(InvalidArgument, match="get_scale"):
        LossScale(3, "")
    with pytest.raises(InvalidArgument, match="above 0"):
        LossScale(lambda: 0.0, "").now()
