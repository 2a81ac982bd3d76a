# SPDX-License-Identifier: Apache-2.0
"""SyncBatchNorm computes what torch's BatchNorm computes in one process for the batches of all ranks."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import nn

import hipress.torch as hp
from hipress.errors import HipressError
from tests.torch.ranks import run

pytestmark = pytest.mark.slow

CHANNELS = 4
STEPS = 2
BATCH_NORMS = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}
#: By element type, what rounding may change.
TOLERANCES = {torch.float64: 1e-10, torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


@dataclass(frozen=True)
class Case:
    """A layer, and the batches of three ranks."""

    rows: tuple[int, int, int] = (3, 5, 2)
    rest: tuple[int, ...] = (6, 7)
    dtype: torch.dtype = torch.float32
    parameters: torch.dtype = torch.float32
    memory_format: torch.memory_format = torch.contiguous_format
    mean: float = 1.0
    #: Without it the one of TOLERANCES.
    tolerance: float = 0.0
    layer: dict[str, Any] = field(default_factory=dict)
    is_dense: bool = True

    def batches(self, step: int) -> list[torch.Tensor]:
        """The inputs of all ranks."""
        made = []
        for rank, rows in enumerate(self.rows):
            random = torch.Generator().manual_seed(10 * step + rank)
            values = torch.randn(rows, CHANNELS, *self.rest, generator=random, dtype=torch.float64)
            # Ranks and channels have other means and deviations.
            scale = torch.arange(1, CHANNELS + 1).view(-1, *[1] * len(self.rest)) / 2
            values = (values * scale + rank * scale + self.mean).to(self.dtype)
            values = values.contiguous(memory_format=self.memory_format)
            made.append(values if self.is_dense else torch.stack([values, values], -1)[..., 0])
        return made


CASES = {
    "two dimensions": Case(rest=()),
    "three dimensions": Case(rest=(6,)),
    "four dimensions": Case(),
    "five dimensions": Case(rest=(3, 2, 4)),
    "float64": Case(dtype=torch.float64, parameters=torch.float64),
    "float16": Case(dtype=torch.float16),
    "bfloat16": Case(dtype=torch.bfloat16),
    "bfloat16 in all": Case(dtype=torch.bfloat16, parameters=torch.bfloat16),
    "bfloat16 without parameters": Case(dtype=torch.bfloat16, layer={"affine": False}),
    "channels last": Case(memory_format=torch.channels_last),
    "channels last, float16": Case(memory_format=torch.channels_last, dtype=torch.float16),
    "channels last, five dimensions": Case(rest=(3, 2, 4), memory_format=torch.channels_last_3d),
    "gaps in memory": Case(is_dense=False),
    "a rank without rows": Case(rows=(4, 0, 3)),
    "a rank without rows, float16": Case(rows=(4, 0, 3), dtype=torch.float16, rest=()),
    "rows of one rank only": Case(rows=(0, 0, 3)),
    "one row for each rank": Case(rows=(1, 1, 1), rest=()),
    "momentum": Case(layer={"momentum": 0.7, "eps": 1e-2}),
    "averages of all batches": Case(layer={"momentum": None}),
    "no parameters": Case(layer={"affine": False}),
    "no running statistics": Case(layer={"track_running_stats": False}),
    "a large mean": Case(mean=3e4, rows=(30, 50, 20), tolerance=5e-3),
    "a large mean, channels last": Case(mean=3e4, rows=(30, 50, 20), memory_format=torch.channels_last, tolerance=5e-3),
    "a large mean, float64": Case(mean=1e9, dtype=torch.float64, parameters=torch.float64, tolerance=1e-5),
}


def _prepared(layer: nn.Module) -> nn.Module:
    with torch.no_grad():
        for index, parameter in enumerate(layer.parameters()):
            parameter.copy_(torch.linspace(0.5 - index, 2.0, CHANNELS))
    return layer


def _loss(output: torch.Tensor, step: int, rank: int) -> torch.Tensor:
    random = torch.Generator().manual_seed(1000 + 10 * step + rank)
    return (output * torch.randn(output.shape, generator=random, dtype=torch.float64)).sum()


def _computed(case: Case, layer: nn.Module, of_rank: int | None) -> dict[str, torch.Tensor]:
    """The results of some steps in float64: for a rank, or, of the batches of all ranks, with torch's own layer."""
    found: dict[str, list[torch.Tensor]] = {"output": [], "gradient": []}
    for step in range(STEPS):
        batches = case.batches(step)
        inputs = [batches[of_rank]] if of_rank is not None else [torch.cat([each.double() for each in batches])]
        (given,) = (each.requires_grad_() for each in inputs)
        output = layer(given)
        assert output.dtype == given.dtype
        parts = [output] if of_rank is not None else output.split(list(case.rows))
        losses = [_loss(each, step, rank if of_rank is None else of_rank) for rank, each in enumerate(parts)]
        torch.stack(losses).sum().backward()
        assert given.grad is not None
        assert given.grad.dtype == given.dtype
        found["output"].append(output.detach())
        found["gradient"].append(given.grad)
    results = {name: torch.cat(each) if of_rank is not None else torch.stack(each) for name, each in found.items()}
    results |= {f"{name}.grad": each.grad for name, each in layer.named_parameters() if each.grad is not None}
    return results | dict(layer.named_buffers())


def _compared(case: Case, rank: int) -> list[str]:
    """The results that differ from those of one process."""
    made: Any = BATCH_NORMS[2 + len(case.rest)]
    wanted = _computed(case, _prepared(made(CHANNELS, **case.layer)).double(), None)
    layer = _prepared(hp.SyncBatchNorm(CHANNELS, **case.layer)).to(case.parameters)
    found = _computed(case, layer, rank)
    assert found.keys() == wanted.keys()
    begin, end = sum(case.rows[:rank]), sum(case.rows[: rank + 1])
    wrong = []
    for name, value in found.items():
        expected = wanted[name]
        if name in ("output", "gradient"):
            expected = expected[:, begin:end].flatten(0, 1)
        elif name.endswith(".grad"):
            # As DistributedOptimizer does, but for the last division.
            value = hp.allreduce(value.double(), op=hp.Sum)
        tolerance = case.tolerance or max(TOLERANCES[case.dtype], TOLERANCES[case.parameters])
        if name.endswith(".grad"):
            tolerance *= 4  # a sum of hundreds of rounded values
        error = (value.double() - expected.double()).abs() / (1 + expected.double().abs())
        if error.numel() and not error.max() <= tolerance:
            wrong.append(f"{name}: {float(error.max()):.1e} > {tolerance:.1e}")
    return wrong


def _all_cases() -> dict[str, str]:
    hp.init()
    found = {}
    for name, case in CASES.items():
        try:
            found[name] = "; ".join(_compared(case, hp.rank()))
        except (Exception, pytest.fail.Exception):
            found[name] = traceback.format_exc()
            break  # the other ranks may wait for this one
    return found


def test_it_equals_the_batch_norm_of_one_process() -> None:
    for rank, found in enumerate(run(_all_cases, 3, HIPRESS_TIMEOUT="20")):
        assert {name: text for name, text in found.items() if text} == {}, f"rank {rank}"
        assert found.keys() == CASES.keys()


def _a_nan_reaches_all_ranks() -> list[bool]:
    hp.init()
    layer = hp.SyncBatchNorm(3)
    values = torch.randn(4, 3)
    if hp.rank() == 0:
        values[1, 0], values[2, 1] = float("nan"), float("inf")
    output = layer(values.requires_grad_())
    output.square().sum().backward()
    assert values.grad is not None
    for each in (output.detach(), values.grad, layer.running_var):
        assert each.isfinite().reshape(-1, 3).all(0).tolist() == [False, False, True]
    return layer.running_mean.isfinite().tolist()


def test_values_that_are_not_finite_reach_all_ranks() -> None:
    assert run(_a_nan_reaches_all_ranks, 2) == [[False, False, True]] * 2


def _refusals() -> list[tuple[str, str]]:
    hp.init()
    layer = hp.SyncBatchNorm(3)
    calls: list[Callable[[], Any]] = [
        lambda: layer(torch.ones(3)),
        lambda: layer(torch.ones(2, 4)),
        lambda: layer(torch.ones(2, 3, dtype=torch.int64)),
        lambda: layer(torch.ones(2, 3, dtype=torch.complex64)),
        lambda: layer([1.0]),
        # All ranks together have one value for each channel.
        lambda: layer(torch.ones(1 - hp.rank(), 3)),
        lambda: torch.autograd.grad(_gradient(layer, torch.ones(2, 3)).sum(), layer.weight),
        lambda: hp.SyncBatchNorm(3 + hp.rank())(torch.ones(2, 3 + hp.rank())),
    ]
    refused = []
    for call in calls:
        try:
            call()
        except HipressError as error:
            refused.append((type(error).__name__, str(error)))
    # A refused batch is not counted.
    assert int(layer.num_batches_tracked) == 1
    return refused


def _gradient(layer: nn.Module, values: torch.Tensor) -> torch.Tensor:
    (gradient,) = torch.autograd.grad((layer(values.requires_grad_()) ** 2).sum(), values, create_graph=True)
    return gradient


def test_a_wrong_input_is_refused() -> None:
    for refused in run(_refusals, 2):
        assert [kind for kind, _ in refused] == [
            *["InvalidArgument"] * 2,
            *["Unsupported"] * 2,
            *["InvalidArgument"] * 2,
            "Unsupported",
            "Mismatch",
        ]
        texts = [text for _, text in refused]
        assert "at least two dimensions" in texts[0]
        assert "num_features=3" in texts[1]
        assert "torch.int64" in texts[2]
        assert "Expected more than 1 value per channel" in texts[5]
        assert "second derivative" in texts[6]
        assert "SyncBatchNorm" in texts[7]
