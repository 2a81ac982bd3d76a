# SPDX-License-Identifier: Apache-2.0
"""transform and hadamard: linear maps of each block; cospi, of which tables of the DCT are made."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from hipress.compll import Interpreter, compile_text
from tests.compll.programs import evaluated, floats, normal, vector

DCT = """
table float dct[4096] = [&](int i) -> float {
    return i < 64 ? 0.125 : 0.17677669529663687 * cospi((2 * (i % 64) + 1) * (i / 64) / 128.0);
};
"""
INVERSE = "table float inverse[4096] = [&](int i) -> float { return dct[i % 64 * 64 + i / 64]; };"


def transformed(table: str, expression: str, gradient: NDArray[np.float32]) -> NDArray[np.float32]:
    text = f"{table} void XEncode(float* gradient, uint8* compressed) {{ compressed = concat({expression}); }}"
    return np.frombuffer(Interpreter(compile_text(text, complete=False)).encode(gradient), "<f4")


def test_transform_multiplies_blocks_by_rows_and_leaves_a_short_last_block() -> None:
    table = "table float m[4] = {1, 2, 30, 40};"
    assert transformed(table, "transform(gradient, m)", floats(1, 10, -1, 1, 7)).tolist() == [21, 430, 1, 10, 7]


def test_transform_adds_from_the_first_column_on_in_floats() -> None:
    table = "table float m[9] = {1, 1, 1, 1, 1, 1, 0, 0, 1};"
    assert transformed(table, "transform(gradient, m)", floats(2**24, 1, -(2**24))).tolist() == [0, 0, -(2**24)]
    assert transformed(table, "transform(gradient, m)", floats(1, 2**24, -(2**24))).tolist() == [0, 0, -(2**24)]
    assert transformed(table, "transform(gradient, m)", floats(2**24, -(2**24), 1)).tolist() == [1, 1, 1]


def test_the_dct_is_the_definition_and_its_rows_turned_are_the_inverse() -> None:
    g = normal(64 * 5 + 9)
    k, n = np.meshgrid(np.arange(64), np.arange(64), indexing="ij")
    matrix = np.sqrt(2 / 64) * np.cos(np.pi * (2 * n + 1) * k / 128)  # DCT-II, orthonormal
    matrix[0] /= np.sqrt(2)
    expected = g[:320].astype(np.float64).reshape(5, 64) @ matrix.T
    frequency = transformed(DCT, "transform(gradient, dct)", g)
    np.testing.assert_allclose(frequency[:320], expected.reshape(-1), atol=1e-5)
    assert frequency[320:].tolist() == g[320:].tolist()
    back = transformed(DCT + INVERSE, "transform(transform(gradient, dct), inverse)", g)
    np.testing.assert_allclose(back, g, atol=1e-5)


@pytest.mark.parametrize("size", [2, 8, 64, 4096])
def test_hadamard_is_the_definition_and_its_own_inverse(size: int) -> None:
    g = normal(2 * size + 1)
    if size <= 64:
        signs = np.array([[1.0 if (i & j).bit_count() % 2 == 0 else -1.0 for j in range(size)] for i in range(size)])
        expected = g[: 2 * size].astype(np.float64).reshape(2, size) @ signs.T / math.sqrt(size)
        found = vector(f"hadamard(gradient, {size})", "float", g)
        np.testing.assert_allclose(found[:-1], expected.reshape(-1), atol=1e-5)
        assert found[-1] == g[-1]
    twice = vector(f"hadamard(hadamard(gradient, {size}), {size})", "float", g)
    np.testing.assert_allclose(twice, g, atol=1e-5)


def test_hadamard_begins_with_the_halves() -> None:
    # ((2^24 + 1) + (-2^24 + 0)) of halves: 2^24 - 2^24 first, then 1 + 0 is not lost.
    assert vector("hadamard(gradient, 4)", "float", floats(2**24, 1, -(2**24), 0))[0] == 0.5


@pytest.mark.parametrize("x", [0.0, 0.25, -0.75, 1.0, 1.5, 123456.75, 8388607.0, 3e9, 0.1, 1e-30])
def test_cospi_is_the_cosine(x: float) -> None:
    from_zero = math.remainder(float(np.float32(x)), 2.0)
    expected = 0.0 if abs(abs(from_zero) - 0.5) == 0 else math.cos(math.pi * from_zero)
    found = evaluated(f"cospi({x!r} * gradient[0])")
    assert found == np.float32(expected) or abs(float(found) - expected) < 1e-15


def test_cospi_of_no_number() -> None:
    assert math.isnan(evaluated("cospi(gradient[0] / (gradient[1] - 2))"))
