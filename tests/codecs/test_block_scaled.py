# SPDX-License-Identifier: Apache-2.0
"""bf16, int8, int4 and block-scaled floats equal definitions in NumPy that use neither CompLL nor its interpreter."""

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
    """The nearest bfloat16 of each value; of two that are equally near, the one whose last bit is 0."""
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
    """One row for each block; zeros fill the last row."""
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
            # A denormal float is a multiple of 2⁻¹⁴⁹.
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


#: By format: the bits of the exponent, the bits of the mantissa, and the greatest magnitude.
FORMATS = {"fp8_e4m3": (4, 3, 448.0), "fp8_e5m2": (5, 2, 57344.0), "fp4_e2m1": (2, 1, 6.0)}


#: By format: the greatest power of two that is a scale.
GREATEST_POWERS = {"fp8_e4m3": 2.0**119, "fp8_e5m2": 2.0**112, "fp4_e2m1": 2.0**125}


def magnitudes(name: str) -> NDArray[np.float64]:
    """All magnitudes of a format, in the order of their codes."""
    exponent, mantissa, greatest = FORMATS[name]
    codes = np.arange(1 << exponent + mantissa)
    power, fraction = codes >> mantissa, codes % (1 << mantissa)
    bias = 2 ** (exponent - 1) - 1
    values = (fraction + np.where(power > 0, 1 << mantissa, 0)) * 2.0 ** (np.maximum(power, 1) - bias - mantissa)
    return values[values <= greatest]


def test_the_greatest_magnitudes_are_those_of_the_formats() -> None:
    assert {name: (magnitudes(name).max(), len(magnitudes(name))) for name in FORMATS} == {
        "fp8_e4m3": (448, 127),
        "fp8_e5m2": (57344, 124),
        "fp4_e2m1": (6, 8),
    }


def scales(payload: bytes, blocks: int) -> NDArray[np.float64]:
    return np.frombuffer(payload[: 4 * blocks], "<f4").astype(np.float64)


@each("block", [16, 100, 256, 5000])
@each("power_of_two", ["true", "false"])
@pytest.mark.parametrize("name", FORMATS)
def test_floats_are_the_nearest_ones_of_their_scale(name: str, power_of_two: str, block: int, isa: str) -> None:
    known, greatest = magnitudes(name), FORMATS[name][2]
    codec = _core.create_codec(f"{name}(block={block}, power_of_two={power_of_two}, error_feedback=false)")
    for count in COUNTS:
        for kind, values in finite_inputs(count).items():
            payload, rows = codec.encode(values), by_blocks(values, block)
            scale, most = scales(payload, len(rows)), np.abs(rows).max(axis=1)
            assert (scale > 0).all(), (count, kind)
            decoded = by_blocks(codec.decode(payload, count), block)
            assert np.isfinite(decoded).all(), (count, kind)
            exact = np.abs(rows) / scale[:, None]
            if power_of_two == "true":
                assert (np.log2(scale) % 1 == 0).all()
                normal_blocks = (most > greatest * 2.0**-126) & (most <= greatest * GREATEST_POWERS[name])
                assert (exact[normal_blocks] <= greatest).all()
                assert (exact[normal_blocks].max(axis=1, initial=greatest) >= greatest / 2).all()
            else:
                wanted = np.maximum(most / greatest, 2.0**-140 if name != "fp4_e2m1" else 2.0**-148)
                assert (np.abs(scale - wanted) <= wanted * 2.0**-23 + 2.0**-150).all(), (count, kind)
            chosen = np.abs(decoded) / scale[:, None]
            nearest = known[np.abs(exact[..., None] - known).argmin(axis=-1)] if count <= 1000 else None
            if nearest is not None:
                # x / s is rounded to a float before it is rounded to the format. The product is rounded, too.
                slack = exact * 2.0**-22 + 2.0**-149 / scale[:, None]
                assert (np.abs(chosen - exact) <= np.abs(nearest - exact) + slack).all(), (count, kind)
            assert ((decoded == 0) | (np.signbit(decoded) == np.signbit(rows))).all()


@pytest.mark.parametrize(
    ("name", "codes"), [("fp8_e4m3", [0x7E, 0xFE, 0x38, 1, 0x81, 0, 0, 0x40]), ("fp4_e2m1", [7, 15, 2, 1, 9, 0, 0, 4])]
)
def test_bytes_of_a_block_of_floats(name: str, codes: list[int]) -> None:
    greatest, least = FORMATS[name][2], float(magnitudes(name)[1])
    values = np.array([greatest, -greatest, 1, least, -least, -0.0, least / 2, 2], np.float32)
    packed = (
        bytes(codes) if name != "fp4_e2m1" else bytes(a | b << 4 for a, b in zip(codes[::2], codes[1::2], strict=True))
    )
    assert _core.create_codec(name).encode(values) == np.float32(1).tobytes() + packed


@pytest.mark.parametrize("value", [2.0**-149, -(2.0**-130), 0.1, -1.5, 3e38, float(LARGEST)])
@pytest.mark.parametrize("name", FORMATS)
def test_a_constant_block_comes_back(name: str, value: float) -> None:
    values = np.full(100, value, np.float32)
    for options in ("", "stochastic=true, "):
        codec = _core.create_codec(f"{name}({options}error_feedback=false)")
        np.testing.assert_allclose(
            codec.decode(codec.encode(values), 100), values, rtol=1e-6 if abs(value) > 1e-30 else 2e-3
        )


@each("power_of_two", ["true", "false"])
@pytest.mark.parametrize("name", FORMATS)
def test_random_rounding_of_floats_is_right_on_average(name: str, power_of_two: str) -> None:
    codec = _core.create_codec(f"{name}(stochastic=true, power_of_two={power_of_two}, error_feedback=false, block=64)")
    values, runs = normal(256, 3), 1000
    payloads = [codec.encode(values, seed=seed) for seed in range(runs)]
    decoded = np.array([codec.decode(payload, 256) for payload in payloads], np.float64)
    scale, known = np.repeat(scales(payloads[0], 4), 64), magnitudes(name)
    exact = np.minimum(np.abs(values) / scale, known[-1])
    below = np.maximum(np.searchsorted(known, exact * (1 - 1e-6)) - 1, 0)
    gap = (known[np.minimum(below + 1, len(known) - 1)] - known[below]) * scale
    assert (np.abs(decoded - values) <= gap * 1.001).all()
    deviation = (decoded.mean(axis=0) - values) / (gap / 2 / np.sqrt(runs))
    assert np.abs(deviation).max() < 4.5
    assert np.mean(deviation**2) < 1.3
