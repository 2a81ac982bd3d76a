# SPDX-License-Identifier: Apache-2.0
"""An all-reduce with a codec that keeps values knows the loss scale of what it gets, or refuses it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import hipress.torch as hp
from tests.torch.ranks import run

pytestmark = pytest.mark.slow

#: Powers of two, so that they cost no rounding.
SCALES = [65536.0, 65536.0, 512.0, 512.0, 1024.0, 1024.0]
CODECS = ["onebit", "topk(ratio=0.1)", "int4", "powersgd(min_ratio=1)"]

_CALLS: dict[str, Callable[..., Any]] = {
    "allreduce": hp.allreduce,
    "allreduce_": hp.allreduce_,
    "allreduce_async": lambda values, **options: hp.allreduce_async(values, **options).wait(),
    "grouped_allreduce": lambda values, **options: hp.grouped_allreduce([values], **options)[0],
}


def _values(step: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(100 * step + hp.rank())
    return torch.randn(60, 100, generator=generator)


def _averages(scales: list[float]) -> dict[str, list[np.ndarray[Any, Any]]]:
    """The unscaled averages of each call and codec. A step before the fall of the scale overflows."""
    hp.init()
    found: dict[str, list[np.ndarray[Any, Any]]] = {}
    for call in _CALLS:
        for codec in CODECS:
            found[f"{call} {codec}"] = each = []
            for step, scale in enumerate(scales):
                options = {"name": f"{call} {codec}", "codec": codec, "scaler": lambda scale=scale: scale}
                if step == 2:
                    overflow = _values(50) * torch.inf
                    assert not torch.isfinite(_CALLS[call](overflow, **options)).all()
                average = _CALLS[call](_values(step) * scale, **options)
                each.append((average / scale).numpy())
    return found


def test_residuals_have_the_unit_of_the_gradient() -> None:
    scaled, plain = (run(_averages, 2, scales) for scales in (SCALES, [1.0] * len(SCALES)))
    for found, expected in zip(scaled, plain, strict=True):
        for key, averages in expected.items():
            np.testing.assert_array_equal(found[key], averages, err_msg=key)


def _small_half_values() -> float:
    """The greatest relative error of the sum of averages of gradients that float16 would lose without a scale."""
    hp.init()
    given, got = torch.zeros(60, 100), torch.zeros(60, 100)
    for step in range(40):
        scale = 2.0**16 if step < 20 else 2.0**14
        half = (_values(7).abs() * 2.0**-26 * scale).half()
        given += half.float() / scale
        got += (
            hp.allreduce(half, name="g", codec="topk(ratio=0.2)", op=hp.Sum, scaler=lambda scale=scale: scale) / scale
        )
    total = hp.allreduce(given, op=hp.Sum)
    return float((got - total).abs().max() / total.abs().max())


def test_gradients_that_float16_holds_only_with_the_scale_are_not_lost() -> None:
    for error in run(_small_half_values, 2):
        assert error < 0.2


def _derivatives(scales: list[float]) -> list[np.ndarray[Any, Any]]:
    """Results, which no scale changes, and unscaled gradients."""
    hp.init()
    found = []
    for step, scale in enumerate(scales):
        inputs = _values(step).requires_grad_()
        result = hp.allreduce(inputs, name="x", codec="onebit", scaler=lambda scale=scale: scale)
        ((result * _values(20 + step)).sum() * scale).backward()
        assert inputs.grad is not None
        found += [result.detach().numpy(), (inputs.grad / scale).numpy()]
    return found


def test_of_a_differentiated_call_only_the_gradients_have_the_scale() -> None:
    for found, expected in zip(*(run(_derivatives, 2, each) for each in (SCALES, [1.0] * len(SCALES))), strict=True):
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)


def _not_handed_over(early: bool) -> list[str]:
    """What calls say in a process with a GradScaler. `early`: the first call comes before the first scaled loss."""
    hp.init()
    values = torch.ones(60, 100)
    if early:
        hp.allreduce(values, name="onebit", codec="onebit")
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(torch.ones(1))
    said = []
    for codec, options in (
        ("onebit", {}),
        ("int8", {}),
        ("onebit", {"scaler": scaler}),
        ("onebit", {"scaler": lambda: 1.0}),
    ):
        try:
            hp.allreduce(values, name=codec, codec=codec, **options)
            said.append("")
        except hp.InvalidArgument as error:
            said.append(str(error))
    return said


@pytest.mark.parametrize("early", [False, True])
def test_a_scaler_that_was_not_handed_over_is_refused_with_the_line_to_write(early: bool) -> None:
    for refused, *others in run(_not_handed_over, 2, early):
        assert "`allreduce(gradient, name=..., codec=..., scaler=scaler)`" in refused
        assert "if these values are not scaled, give scaler=lambda: 1.0" in refused
        assert others == ["", "", ""]
