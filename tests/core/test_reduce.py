# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest

from hipress import _core
from hipress.errors import InvalidArgument, Unsupported
from tests.cases import each
from tests.core.codec_reference import SIZES, from_bfloat16, from_half, same_bits, to_bfloat16, to_half

INTEGERS = ["uint8", "int8", "int16", "int32", "int64"]
DTYPES = ["float32", "float64", "float16", "bfloat16", *INTEGERS, "bool"]
RANKS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 16, 17, 25]


def contributions(dtype: str, ranks: int, count: int) -> list[np.ndarray]:
    generator = np.random.default_rng(ranks * 10_000 + count)
    if dtype in INTEGERS:
        limits = np.iinfo(dtype)
        return [generator.integers(limits.min, limits.max, count, dtype, endpoint=True) for _ in range(ranks)]
    if dtype == "bool":
        return [generator.random(count) < 0.3 for _ in range(ranks)]
    floats = [(generator.standard_normal(count) * 10).astype(np.float32) for _ in range(ranks)]
    if dtype == "float16":
        return [to_half(values) for values in floats]
    if dtype == "bfloat16":
        return [to_bfloat16(values) for values in floats]
    return [values.astype(dtype) for values in floats]


def in_order(arrays: list[np.ndarray]) -> np.ndarray:
    total = arrays[0]
    for values in arrays[1:]:
        total = total + values
    return total


def expected(arrays: list[np.ndarray], dtype: str, factor: float) -> np.ndarray:
    if dtype == "bool":
        any_set: np.ndarray = np.logical_or.reduce(arrays)
        return any_set
    if dtype in ("float32", "float64"):
        scaled_sum: np.ndarray = in_order(arrays) * arrays[0].dtype.type(factor)
        return scaled_sum
    if dtype in ("float16", "bfloat16"):
        widen, narrow = (from_half, to_half) if dtype == "float16" else (from_bfloat16, to_bfloat16)
        return narrow(in_order([widen(bits) for bits in arrays]) * np.float32(factor))
    if factor == 1:
        return in_order(arrays)
    limits = np.iinfo(dtype)
    total = in_order([values.astype(np.int64) for values in arrays])
    scaled = [int(value) for value in np.trunc(total.astype(np.float64) * factor)]
    return np.array([min(max(value, int(limits.min)), int(limits.max)) for value in scaled], dtype)


@each("dtype", DTYPES)
@each("ranks", RANKS)
def test_merge_is_the_reference_bit_for_bit(dtype: str, ranks: int, isa: str) -> None:
    for count in (0, 1, 7, 8, 9, 15, 17, 65, 2047, 2049, 5000):
        arrays = contributions(dtype, ranks, count)
        for factor in (1.0,) if dtype == "bool" else (1.0, 1 / ranks, -2.5):
            merged = _core.reduce_in_order(arrays, dtype, factor)
            assert same_bits(merged, expected(arrays, dtype, factor)), (count, factor)


@each("count", SIZES)
def test_every_length(count: int, isa: str) -> None:
    for dtype in DTYPES:
        arrays = contributions(dtype, 3, count)
        assert same_bits(_core.reduce_in_order(arrays, dtype), expected(arrays, dtype, 1.0))


@each("dtype", DTYPES)
@each("ranks", [1, 2, 5, 8, 9, 20])
def test_output_may_be_any_contribution(dtype: str, ranks: int, isa: str) -> None:
    for position in {0, ranks // 2, ranks - 1}:
        arrays = contributions(dtype, ranks, 4099)
        merged = expected(arrays, dtype, 1.0)
        _core.reduce_in_order(arrays, dtype, 1.0, arrays[position])
        assert same_bits(arrays[position], merged)


def test_order_is_the_ranks_order(isa: str) -> None:
    """Float sums depend on the order: 2^24 + 1 + 1 loses both ones, 1 + 1 + 2^24 loses none."""
    big, one = np.full(100, 2**24, np.float32), np.ones(100, np.float32)
    assert (_core.reduce_in_order([big, one, one], "float32") == 2**24).all()
    assert (_core.reduce_in_order([one, one, big], "float32") == 2**24 + 2).all()


def test_halves_round_once_at_the_end(isa: str) -> None:
    """In float16, 2048 + 1 is 2048, but the sum of 2048 and four ones must be 2052."""
    big, one = to_half(np.full(50, 2048, np.float32)), to_half(np.ones(50, np.float32))
    merged = _core.reduce_in_order([big, one, one, one, one], "float16")
    assert (from_half(merged) == 2052).all()


def test_halves_may_overflow_on_the_way_to_an_average(isa: str) -> None:
    large = to_half(np.full(50, 60000, np.float32))
    assert (from_half(_core.reduce_in_order([large] * 4, "float16", 0.25)) == from_half(large)).all()


def test_integers_wrap_when_summed_and_not_when_averaged(isa: str) -> None:
    values = np.full(100, 100, np.int8)
    assert (_core.reduce_in_order([values, values], "int8") == -56).all()
    assert (_core.reduce_in_order([values, values], "int8", 0.5) == 100).all()


def test_integer_averages_truncate_toward_zero(isa: str) -> None:
    first, second = np.array([7, -7, 3, -3] * 9, np.int32), np.zeros(36, np.int32)
    assert _core.reduce_in_order([first, second], "int32", 0.5).tolist() == [3, -3, 1, -1] * 9


@each("dtype", INTEGERS)
def test_scaled_integers_saturate(dtype: str, isa: str) -> None:
    limits = np.iinfo(dtype)
    values = np.array([limits.min, limits.max] * 20, dtype)
    assert same_bits(_core.reduce_in_order([values], dtype, 1e30), values)


@each("bad", [np.nan, np.inf, -np.inf])
def test_non_finite_values_propagate(bad: float, isa: str) -> None:
    values = np.ones(40, np.float32)
    values[[0, 17, 39]] = bad
    for ranks in (1, 2, 9):
        merged = _core.reduce_in_order([values] + [np.ones(40, np.float32)] * (ranks - 1), "float32", 0.5)
        assert not np.isfinite(merged[[0, 17, 39]]).any()
        assert np.isfinite(merged).sum() == 37


def test_bool_is_any_nonzero_byte(isa: str) -> None:
    bytes_ = np.array([0, 1, 2, 255] * 9, np.uint8)
    assert _core.reduce_in_order([bytes_, np.zeros(36, np.uint8)], "bool").tolist() == [0, 1, 1, 1] * 9


@each("dtype", ["float32", "float16", "int64"])
def test_addresses_need_no_alignment(dtype: str, isa: str) -> None:
    arrays = contributions(dtype, 3, 100)
    size = arrays[0].itemsize
    shifted = [np.frombuffer(b"\0" + values.tobytes(), arrays[0].dtype, 100, offset=1) for values in arrays]
    assert all(values.ctypes.data % size for values in shifted)
    assert same_bits(_core.reduce_in_order(shifted, dtype), expected(arrays, dtype, 1.0))


def test_wrong_calls_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="no contributions"):
        _core.reduce_in_order([], "float32")
    with pytest.raises(InvalidArgument, match="no contributions"):
        _core.reduce_in_order([], "float32", 1.0, np.zeros(3, np.float32))
    with pytest.raises(Unsupported, match="bool"):
        _core.reduce_in_order([np.ones(3, bool)], "bool", 0.5)
    for factor in (np.inf, np.nan):
        with pytest.raises(InvalidArgument, match="finite"):
            _core.reduce_in_order([np.ones(3, np.int32)], "int32", factor)
    with pytest.raises(InvalidArgument, match="does not exist"):
        _core.reduce_in_order([np.ones(3, np.float32)], "complex64")
