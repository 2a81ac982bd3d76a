# SPDX-License-Identifier: Apache-2.0
"""exp, log, exponent and pow2: near the true values, and the same bits on all targets."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from hipress.compll import Interpreter, compile_text
from hipress.compll.ir.exponentials import exponent, exponential, logarithm, power_of_two
from tests.compll.operators.differential import same_on_all_targets
from tests.compll.programs import evaluated

LEAST, GREATEST = 5e-324, 1.7976931348623157e308


def _doubles() -> NDArray[np.float64]:
    rng = np.random.default_rng(3)
    near_one = 1 + rng.uniform(-1e-6, 1e-6, 2000)
    wide = np.exp(rng.uniform(-740, 709, 20000))
    return np.concatenate([near_one, wide, [1, LEAST, 2.0**-1022, GREATEST, 0.5, 2, math.sqrt(2), math.sqrt(0.5)]])


def test_log_errs_by_two_last_places_at_most() -> None:
    x = _doubles()
    expected = np.array([math.log(each) for each in x])
    assert (np.abs(logarithm(x) - expected) <= 2 * np.spacing(np.abs(expected))).all()
    assert logarithm(1.0) == 0


def test_exp_errs_by_two_last_places_at_most() -> None:
    x = np.random.default_rng(4).uniform(-708, 709.7, 20000)
    expected = np.array([math.exp(each) for each in x])
    assert (np.abs(exponential(x) - expected) <= 2 * np.spacing(expected)).all()
    assert exponential(0.0) == 1


def test_exp_becomes_small_without_a_gap() -> None:
    x = np.linspace(-746, -700, 1000)
    expected = np.array([math.exp(each) for each in x])
    np.testing.assert_allclose(exponential(x), expected, rtol=1e-15, atol=LEAST)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("exp(1e9)", math.inf),
        ("exp(-1e9)", 0.0),
        ("exp(-1 / zero)", 0.0),
        ("exp(1 / zero)", math.inf),
        ("log(zero)", -math.inf),
        ("log(-zero)", -math.inf),
        ("log(1 / zero)", math.inf),
        ("exponent(zero)", -150),
        ("exponent(1e-45)", -149),
        ("exponent(1.1754942e-38)", -127),
        ("exponent(-1.999)", 0),
        ("exponent(2)", 1),
        ("exponent(3.4e38)", 127),
        ("exponent(1 / zero)", 128),
        ("exponent(zero / zero)", 128),
        ("exponent((double) 0.75)", -1),
        ("exponent((double) zero)", -1075),
        ("exponent(1 / (double) zero)", 1024),
        ("pow2(0)", 1),
        ("pow2(127)", 2.0**127),
        ("pow2(128)", math.inf),
        ("pow2(2147483647)", math.inf),
        ("pow2(-126)", 2.0**-126),
        ("pow2(-149)", 2.0**-149),
        ("pow2(-150)", 0.0),
        ("pow2(-2147483647 - 1)", 0.0),
    ],
)
def test_limits(expression: str, expected: float) -> None:
    assert float(evaluated(expression.replace("zero", "(gradient[0] - gradient[0])"))) == expected


@pytest.mark.parametrize("expression", ["log(-1)", "log(zero / zero)", "exp(zero / zero)"])
def test_no_number(expression: str) -> None:
    assert math.isnan(evaluated(expression.replace("zero", "(gradient[0] - gradient[0])")))


def test_pow2_of_the_exponent_is_the_power_below() -> None:
    scales = 2.0 ** np.arange(-145, -45).repeat(10)
    magnitude = np.abs(np.random.default_rng(5).standard_normal(1000) * scales).astype(np.float32)
    below = power_of_two(exponent(magnitude))
    assert ((below <= magnitude) & (magnitude < 2 * below.astype(np.float64)) | (magnitude == 0)).all()


PROGRAM = """
void ExponentialsEncode(float* gradient, uint8* compressed) {
    double* logarithm = map(gradient, [&](float x) -> double { return log((double) abs(x)); });
    float* power = map(gradient, logarithm, [&](float x, double l) -> float {
        return exp(min(x, 80)) + (isfinite(l) ? exp(l) : 0);
    });
    int* exponents = map(gradient, [&](float x) -> int { return exponent(x) * 4096 + exponent((double) x); });
    float* powers = map(gradient, range(gradient.size), [&](float x, int i) -> float {
        return pow2(exponent(x)) * pow2(i % 300 - 160);
    });
    float* tall = map(powers, [&](float p) -> float { return isfinite(p) ? p : -1; });
    float* known = map(logarithm, [&](double l) -> float { return isfinite(l) ? l : -1000; });
    compressed = concat(known, power, exponents, tall);
}

void ExponentialsDecode(uint8* compressed, float* gradient) {
    extract(compressed, float known[gradient.size], float power[gradient.size], int32 exponents[gradient.size],
            float tall[gradient.size]);
    gradient = map(known, power, exponents, tall, [&](float k, float p, int e, float t) -> float {
        return k + p + e + (float) log(abs(t) + 1);
    });
}
"""


def test_all_targets_give_the_same_bits(tmp_path: Path) -> None:
    same_on_all_targets(PROGRAM, tmp_path)


TABLE = """
table float t[4] = [&](int i) -> float { return exp(i) * pow2(i); };
void XEncode(float* gradient, uint8* compressed) { compressed = concat(t); }
"""


def test_tables_may_use_them() -> None:
    message = Interpreter(compile_text(TABLE, complete=False)).encode(np.zeros(1, np.float32))
    np.testing.assert_allclose(np.frombuffer(message, "<f4"), [math.exp(i) * 2**i for i in range(4)], rtol=1e-6)
