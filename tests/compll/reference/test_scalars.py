# SPDX-License-Identifier: Apache-2.0
"""Scalar expressions have their documented meaning."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.compll.programs import encoder, evaluated, floats


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("7 / 2", 3),
        ("-7 / 2", -3),
        ("-7 % 3", -1),
        ("gradient.size / (gradient.size - 3)", 0),
        ("7 % (gradient.size - 3)", 7),
        ("2147483647 + gradient.size", -2147483646),
        ("65536 * 65536", 0),
        ("1 << 33", 2),
        ("-8 >> 1", -4),
        ("~5 & 0xff", 250),
        ("5 ^ 1 | 8", 12),
        ("1 + 2 * 3 - 4", 3),
        ("(int32) -2.7", -2),
        ("(int32) 3e9", 2147483647),
        ("(int32) (0.0 / (gradient.size - 3))", 0),
        ("gradient.size > 2 && !(gradient.size > 5)", 1),
        ("gradient.size == 3 ? 4 : 5", 4),
        ("round(2.5) + round(3.5)", 6),
        ("floor(-0.5)", -1),
        ("ceil(0.5)", 1),
        ("abs(-3)", 3),
        ("sign(-3.5)", -1),
        ("min(3, 4) * max(3, 4)", 12),
        ("gradient[7]", 0),
        ("gradient[2]", 3),
        ("isfinite(1.0 / (gradient.size - 3))", 0),
        ("blocks(gradient.size, 2)", 2),
        ("sqrt(9)", 3),
        ("exp(0)", 1),
        ("log(1)", 0),
    ],
)
def test_integers(expression: str, value: int) -> None:
    assert evaluated(expression, "int") == value


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1 / 3.0", np.float32(1) / np.float32(3)),
        ("1e10", np.float32(1e10)),
        ("(double) 0.1 + 0.2", np.float32(0.1 + 0.2)),
        ("16777216 + 1.0", np.float32(16777216)),
        ("0.1 * 3", np.float32(0.1) * np.float32(3)),
    ],
)
def test_floats(expression: str, value: Any) -> None:
    assert evaluated(expression) == value


@pytest.mark.parametrize(("type_", "expected"), [("uint1", 1), ("uint2", 3), ("uint4", 15), ("uint8", 200)])
def test_conversions_saturate(type_: str, expected: int) -> None:
    assert evaluated("gradient[0]", type_, floats(200)) == expected
    assert evaluated("gradient[0]", type_, floats(-1)) == 0


def test_min_and_max_of_nan() -> None:
    nan = "(0.0 / (gradient.size - 3))"
    assert evaluated(f"min(1.0, {nan})") == 1
    assert np.isnan(evaluated(f"min({nan}, 1.0)"))
    assert evaluated(f"max(2.0, {nan})") == 2


def test_functions_lambdas_and_if() -> None:
    body = """
        lambda_func clip = [&](float x, float top) -> float {
            float y;
            if (x > top) { y = top; } else { y = x; }
            if (y < 0) { return 0.0; } else if (y == 1) { return 10.0; }
            return y;
        }
        float a;
        float* picked;
        if (gradient.size > 2) { a = clip(5, 3); picked = gradient; } else { a = 0.0; picked = fill(1, 7.0); }
        compressed = concat(a, clip(-1, 1), clip(1, 2), picked.size, picked);
    """
    run = encoder(body)
    assert np.frombuffer(run.encode(floats(8, 9, 7)), "<f4")[[0, 1, 2, 4, 5, 6]].tolist() == [3, 0, 10, 8, 9, 7]
    assert np.frombuffer(run.encode(floats(8)), "<f4")[[0, 4]].tolist() == [0, 7]
    assert run.max_encoded_bytes(3) == 4 * 7
