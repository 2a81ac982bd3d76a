# SPDX-License-Identifier: Apache-2.0
"""hp.watch() compares averages with exact ones while a model trains, and changes nothing else."""

from __future__ import annotations

import gc
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import hipress.torch as hp
from hipress.errors import CodecWarning, InvalidArgument, Mismatch
from hipress.torch import ddp
from hipress.watching.figures import Figures
from tests.torch.ddp.training import fingerprint, in_process_group
from tests.torch.ranks import run

WAYS = ["optimizer", "group", "hipress"]
#: The window's steps after as many others.
WINDOW = 4
SHAPE = (40, 60)


class Product(nn.Module):
    """Its gradient is the input, so that a test knows each rank's gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(SHAPE))
        self.bias = nn.Parameter(torch.zeros(7))  # a vector travels exactly

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return (self.weight * inputs).sum() + self.bias.sum()


def _inputs(rank: int, step: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(7 * step + rank)
    # All in one direction, with noise: so the errors of a codec without memory add up.
    return torch.randn(SHAPE, generator=generator) + torch.linspace(-1, 3, SHAPE[0])[:, None]


def _made(way: str, codec: str) -> tuple[nn.Module, torch.optim.Optimizer, Any]:
    model: nn.Module = Product()
    optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if way == "optimizer":
        watched: Any = hp.DistributedOptimizer(
            optimizer, model.named_parameters(), codec=codec, min_compress_bytes=0, codec_for={"bias": "none"}
        )
        optimizer = watched
    else:
        model = DistributedDataParallel(model)
        watched = ddp.compress(model, codec, carrier=way, min_compress_bytes=0)
    return model, optimizer, watched


def _trained(way: str, codec: str, watched_with: dict[str, Any] | None, steps: int = 3 * WINDOW) -> Any:
    """What a training gives: the averages of each step, the parameters, and the figures."""
    rank = torch.distributed.get_rank()
    model, optimizer, trained = _made(way, codec)
    if watched_with is not None:
        watcher = hp.watch(trained, "momentum", **{"every": 1000, "window": WINDOW, "places": 10**6, **watched_with})
    averages, figures = [], []
    for step in range(steps):
        optimizer.zero_grad()
        model(_inputs(rank, step)).backward()
        averages.append(next(model.parameters()).grad.clone().numpy())
        optimizer.step()
        if watched_with is not None:
            figures.append(watcher.figures)
    return averages, fingerprint(model), figures, trained


@in_process_group
def _figures(rank: int, way: str) -> tuple[list[np.ndarray], Figures, dict[str, float], bool]:
    hp.init()
    gc.collect()  # what earlier tests of this process watched is gone
    averages, parameters, figures, _ = _trained(way, "onebit(error_feedback=false)", {"on_harm": "ignore"})
    _, unwatched, _, _ = _trained(way, "onebit(error_feedback=false)", None)
    metrics = hp.metrics()
    # The hook hears of a step's end when the next one begins.
    assert figures[2 * WINDOW - 2] is None
    assert figures[2 * WINDOW] is not None
    first = figures[2 * WINDOW]
    assert first is not None
    return averages, first, metrics, parameters == unwatched


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_figures_are_those_of_the_exact_averages(tmp_path: Path, way: str) -> None:
    for averages, figures, metrics, is_unchanged in run(_figures, 2, str(tmp_path), way):
        assert is_unchanged
        steps = range(WINDOW, 2 * WINDOW)
        exact = [np.mean([_inputs(rank, step).double().numpy() for rank in range(2)], axis=0) for step in steps]
        errors = [averages[step] - each for step, each in zip(steps, exact, strict=True)]
        assert set(figures.tensors) == {"weight"}  # the vector travels exactly
        tensor = figures.tensors["weight"]
        assert (figures.step, figures.steps, figures.not_finite) == (2 * WINDOW, WINDOW, 0)
        assert tensor.codec == "onebit(block=32768, error_feedback=false)"
        assert tensor.elements == np.prod(SHAPE)
        assert tensor.error == pytest.approx(_squared(errors) / _squared(exact), rel=1e-4)
        product = sum(float(np.sum(averages[step] * each)) for step, each in zip(steps, exact, strict=True))
        assert tensor.fresh == figures.fresh == pytest.approx(product / _squared(exact), rel=1e-4)
        assert figures.error == tensor.error
        assert figures.step_s > figures.waited_s >= 0
        assert figures.sent_bytes > 0
        # The newest window is the second one.
        assert metrics["hipress/step"] == 3 * WINDOW or way != "optimizer"
        assert metrics["hipress/error/weight"] > 0.01


def _squared(values: Any) -> float:
    return float(np.square(values).sum())


@in_process_group
def _made_safer(rank: int, way: str) -> tuple[str, bytes, int, str]:
    hp.init()
    with warnings.catch_warnings():
        warnings.simplefilter("error", CodecWarning)
        _, parameters, figures, trained = _trained(way, "graddrop(ratio=0.01)", {"on_harm": "safer"}, steps=6 * WINDOW)
    codec = trained.codec_of("weight") if way != "optimizer" else trained._hipress.synchronizer.codec_of(0)
    assert figures[-1].fresh > 0.99
    with warnings.catch_warnings():
        warnings.simplefilter("error", CodecWarning)
        with pytest.raises(CodecWarning, match=r"(?s)does harm.*'weight' with codec 'graddrop.*'int4'") as caught:
            _trained(way, "graddrop(ratio=0.01)", {})
    return codec, parameters, rank, str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_a_codec_that_does_harm_is_named_or_replaced_on_all_ranks(tmp_path: Path, way: str) -> None:
    first, second = run(_made_safer, 2, str(tmp_path), way)
    assert first[0] == second[0]
    assert first[0].startswith("int4")
    assert first[1] == second[1]


@in_process_group
def _refused(rank: int) -> list[str]:
    hp.init()
    found = []
    for way in WAYS:
        _, _, trained = _made(way, "int8")
        for wrong in ({"window": 1}, {"every": 30}, {"places": 0}, {"on_harm": "stop"}, {"optimizer": "newton"}):
            with pytest.raises(InvalidArgument):
                hp.watch(trained, **wrong)
        with pytest.raises(Mismatch) as caught:
            hp.watch(trained, every=1000 + rank)
        found.append(str(caught.value))
        hp.watch(trained)  # after the refusals it works
    with pytest.raises(InvalidArgument, match="not a SGD"):
        hp.watch(torch.optim.SGD(Product().parameters(), lr=1))  # type: ignore[arg-type]
    return found


def test_bad_arguments_are_refused_on_all_ranks(tmp_path: Path) -> None:
    for found in run(_refused, 2, str(tmp_path)):
        assert all("arguments of watch()" in each for each in found)


@in_process_group
def _odd_steps(rank: int, way: str) -> tuple[Figures | None, int]:
    """A step whose gradient is not finite, steps without a gradient on a rank, and a writer that raises."""
    hp.init()
    model, optimizer, trained = _made(way, "int8")
    calls = []

    def raising(figures: Figures) -> None:
        calls.append(figures)
        raise OSError("the disk is full")

    watcher = hp.watch(trained, window=WINDOW, writers=[raising])
    for step in range(5 * WINDOW):
        optimizer.zero_grad()
        inputs = _inputs(rank, step)
        if step == WINDOW + 1 and rank == 1:
            inputs[3, 3] = float("nan")
        if not (way == "optimizer" and rank == 1 and step == WINDOW + 2):
            model(inputs).backward()
        if step == WINDOW + 1:
            optimizer.zero_grad()
        optimizer.step()
        if watcher.figures is not None and step <= 2 * WINDOW:
            first = watcher.figures
    return first, len(calls)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_steps_that_are_not_finite_do_not_count(tmp_path: Path, way: str) -> None:
    for figures, calls in run(_odd_steps, 2, str(tmp_path), way):
        assert (figures.steps, figures.not_finite) == (WINDOW - 1, 1)
        assert figures.error < 0.01  # a rank without a gradient has zeros
        assert calls == 1
