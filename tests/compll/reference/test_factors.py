# SPDX-License-Identifier: Apache-2.0
"""A program with a residual has the options residual_factor and gradient_factor without declaring them."""

from __future__ import annotations

import numpy as np
import pytest

from hipress.compll import compile_text
from hipress.errors import InvalidArgument
from tests.compll.programs import codec, encoder

#: Sends value + residual, and keeps a quarter of the value.
BODY = """
    compressed = concat(map(gradient, residual, [&](float g, float r) -> float { return g + r; }));
    residual = map(gradient, [&](float g) -> float { return g / 4; });
"""
ONES = np.ones(3, np.float32)


def test_the_residual_and_the_scaled_gradient_have_factors() -> None:
    of = encoder(BODY, "state float* residual", residual_factor=0.5, gradient_factor=0.25)
    states = {"residual": np.full(3, 8, np.float32)}
    assert np.frombuffer(of.encode(ONES, states, scale=2), np.float32).tolist() == [4.5, 4.5, 4.5]
    assert states["residual"].tolist() == [0.125, 0.125, 0.125]
    assert np.frombuffer(of.encode(ONES), np.float32).tolist() == [0.25, 0.25, 0.25]


def test_merged_gradients_have_no_factor_and_their_residual_has() -> None:
    of = encoder(BODY, "state float* residual", residual_factor=0.5, gradient_factor=0.25).for_aggregate()
    states = {"residual": np.full(3, 8, np.float32)}
    assert np.frombuffer(of.encode(ONES, states), np.float32).tolist() == [5, 5, 5]


def test_another_state_has_no_factors() -> None:
    body = BODY.replace("residual", "velocity")
    with pytest.raises(InvalidArgument, match="there is no parameter 'residual_factor'"):
        encoder(body, "state float* velocity", residual_factor=0.5)


def test_a_declared_parameter_has_the_programs_meaning() -> None:
    program = compile_text(
        "param XParams { float residual_factor = 3; }\n"
        "void XEncode(float* gradient, uint8* compressed, state float* residual, XParams params) {"
        + BODY.replace("g + r", "params.residual_factor * r")
        + "}",
        complete=False,
    )
    assert [(param.name, param.implicit) for param in program.params] == [
        ("residual_factor", False),
        ("gradient_factor", True),
    ]
    assert program.encode is not None
    assert program.encode.factors == ()


def test_factors_without_a_residual_are_refused() -> None:
    for factor in ("residual_factor", "gradient_factor"):
        with pytest.raises(InvalidArgument, match=f"{factor}=0.5 is a factor beside the residual, and with"):
            codec("int8", **{factor: 0.5})
        assert codec("int8", **{factor: 1}).params[factor] == 1
        with pytest.raises(InvalidArgument, match="is not in"):
            codec("onebit", **{factor: 1.5})
