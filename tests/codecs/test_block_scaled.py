# SPDX-License-Identifier: Apache-2.0
"""bf16, int8 and int4 beside their definitions in NumPy, which use neither CompLL nor its interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from hipress import _core
from tests.cases import each
from tests.codecs.builtin import Floats, inputs, normal

COUNTS = [1, 7, 15, 16, 17, 255, 256, 257, 1000, 4097]
GREATEST = {"int8": 127, "int4": 7}
LARGEST = np.float32(np.finfo(np.float32).max)


def finite_inputs(count: int) -> dict[str, Floats]:
    huge = np.where(np.arange(count) % 2, LARGEST, -LARGEST).astype(np.float32)
    largest_among_small = normal(count) * np.float32(1e-30)
    largest_among_small[-1] = LARGEST
    values = inputs(count) | {"largest": huge, "one value rules": largest_among_small}
    values |= {f"near {power}": normal(count) * np.float32(10.0**power) for power in (-44, -41, -38, -37, -20, -19)}
    return {name: array for name, array in values.items() if np.isfinite(array).all()}


def bfloat16(values: Floats) -> NDArray[np.uint16]:
    """Of the two nearest bfloat16 values the nearer one; of two that are as near, the one whose last bit is 0."""
    lower = (values.view(np.uint32) >> 16).astype(np.uint16)
    with np.errstate(over="ignore", invalid="ignore"):
        low, high = widened(lower).astype(np.float64), widened(lower + np.uint16(1)).astype(np.float64)
    high = np.where(np.isinf(high), np.copysign(2.0**128, high), high)
    below, above = np.abs(values - low), np.abs(high - values)
    up = (above < below) | ((above == below) & (lower & 1 == 1))
    return lower + up.astype(np.uint16)


def widened(halves: NDArray[np.uint16]) -> Floats:
    return (halves.astype(np.uint32) << 16).view(np.float32)


def by_blocks(values: Floats, block: int) -> NDArray[np.float64]:
    """A row for each block, the last one filled with zeros."""
    rows = np.zeros((-(-len(values) // block), block))
    rows.reshape(-1)[: len(values)] = values
    return rows


@each("count", COUNTS)
def test_bf16_is_the_nearest_value(count: int, isa: str) -> None:
    codec = _core.create_codec("bf16")
    for name, values in finite_inputs(count).items():
        payload = codec.encode(values)
        assert payload == bfloat16(values).astype("<u2").tobytes(), name
        np.testing.assert_array_equal(codec.decode(payload, count), widened(bfloat16(values)), name)


@each("block", [16, 100, 256, 5000])
@pytest.mark.parametrize("name", GREATEST)
def test_levels_are_the_nearest_ones_of_the_block(name: str, block: int, isa: str) -> None:
    codec, greatest = _core.create_codec(f"{name}(block={block}, error_feedback=false)"), GREATEST[name]
    for count in COUNTS:
        for kind, values in finite_inputs(count).items():
            payload, rows = codec.encode(values), by_blocks(values, block)
            scale = np.frombuffer(payload[: 4 * len(rows)], "<f4").astype(np.float64)
            exact = np.abs(rows).max(axis=1) / greatest
            # A float among denormals is a multiple of 2⁻¹⁴⁹.
            assert (np.abs(scale - exact) <= exact * 2.0**-23 + 2.0**-150).all(), (count, kind)
            decoded = by_blocks(codec.decode(payload, count), block)
            assert np.isfinite(decoded).all(), (count, kind)
            allowed = exact * (0.5 + greatest * 2.0**-21) + greatest * 2.0**-149
            assert (np.abs(decoded - rows) <= allowed[:, None]).all(), (count, kind)
            levels = np.where(scale > 0, exact, 1.0)[:, None]
            assert (np.abs(decoded / levels) <= greatest * (1 + 2.0**-20) + greatest * 2.0**-149 / levels).all()


@pytest.mark.parametrize("name", GREATEST)
def test_bytes_of_a_block(name: str) -> None:
    greatest = GREATEST[name]
    values = np.array([greatest, -greatest, 0.5, 1.5, -2.5, 0.49, -0.0], np.float32)
    levels = [greatest, -greatest, 0, 2, -2, 0, 0]
    codes = [level % (2 * greatest + 2) for level in levels]
    packed = (
        bytes(codes)
        if name == "int8"
        else bytes(a | b << 4 for a, b in zip(codes[::2], [*codes[1::2], 0], strict=True))
    )
    payload = _core.create_codec(name).encode(values)
    assert payload == np.float32(1).tobytes() + packed


@pytest.mark.parametrize("name", GREATEST)
def test_random_rounding_is_right_on_average(name: str) -> None:
    codec = _core.create_codec(f"{name}(stochastic=true, error_feedback=false, block=64)")
    values = normal(256, 3)
    runs = 2000
    decoded = np.array([codec.decode(codec.encode(values, seed=seed), 256) for seed in range(runs)], np.float64)
    scale = np.repeat(np.abs(by_blocks(values, 64)).max(axis=1) / GREATEST[name], 64)
    # Each value is one of its two neighbouring levels; the mean's error is at most half a scale over √runs.
    assert (np.abs(decoded - values) <= scale * 1.0001).all()
    deviation = (decoded.mean(axis=0) - values) / (scale / 2 / np.sqrt(runs))
    assert np.abs(deviation).max() < 4.5
    assert np.mean(deviation**2) < 1.3
    nearest = _core.create_codec(f"{name}(error_feedback=false, block=64)")
    assert np.ptp(decoded, axis=0).max() > 0
    assert nearest.encode(values, seed=1) == nearest.encode(values, seed=2)


@pytest.mark.parametrize("text", ["int8(stochastic=true)", "int4(stochastic=true)"])
def test_random_rounding_never_leaves_the_levels(text: str, isa: str) -> None:
    codec = _core.create_codec(text)
    for value in (LARGEST, np.float32(3e-39), np.float32(0.1), np.float32(7e11)):
        for seed in range(20):
            values = np.full(1000, value) * np.where(np.arange(1000) % 3, 1, -1).astype(np.float32)
            decoded = codec.decode(codec.encode(values, seed=seed), 1000)
            assert np.isfinite(decoded).all()
            np.testing.assert_allclose(np.abs(decoded), np.abs(values), rtol=1e-2, atol=1e-42)
