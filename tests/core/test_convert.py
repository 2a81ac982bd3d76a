# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hipress import _core
from hipress.errors import Unsupported
from tests.cases import each
from tests.core.codec_reference import SIZES, awkward_inputs, from_bfloat16, from_half, same_bits, to_bfloat16, to_half

ALL_16_BITS = np.arange(2**16, dtype=np.uint16)


def test_every_float16_widens_exactly(isa: str) -> None:
    assert same_bits(_core.widen(ALL_16_BITS, "float16"), from_half(ALL_16_BITS))


def test_every_bfloat16_widens_exactly(isa: str) -> None:
    assert same_bits(_core.widen(ALL_16_BITS, "bfloat16"), from_bfloat16(ALL_16_BITS))


def interesting_floats() -> np.ndarray:
    """Every float16 and bfloat16, the floats next to them and halfway between them, and random bits."""
    exact = np.concatenate([from_half(ALL_16_BITS), from_bfloat16(ALL_16_BITS)]).view(np.uint32)
    halfway = [exact + np.uint32(offset) for offset in (0x1000, 0x8000)]
    beside = [values + np.uint32(step) for values in [exact, *halfway] for step in (1, 2**32 - 1)]
    random = np.random.default_rng(0).integers(0, 2**32, 200_000, dtype=np.uint32)
    return np.concatenate([exact, *halfway, *beside, random]).view(np.float32)


def test_narrowing_rounds_to_nearest_even(isa: str) -> None:
    values = interesting_floats()
    assert _core.narrow(values, "float16") == to_half(values).tobytes()
    assert _core.narrow(values, "bfloat16") == to_bfloat16(values).tobytes()


@each("count", SIZES)
def test_every_length(count: int, isa: str) -> None:
    for values in awkward_inputs(count).values():
        assert _core.narrow(values, "float16") == to_half(values).tobytes()
        assert _core.narrow(values, "bfloat16") == to_bfloat16(values).tobytes()
        assert _core.narrow(values, "float32") == values.tobytes()
        assert _core.narrow(values, "float64") == values.astype(np.float64).tobytes()
        assert same_bits(_core.widen(to_half(values), "float16"), from_half(to_half(values)))
        assert same_bits(_core.widen(to_bfloat16(values), "bfloat16"), from_bfloat16(to_bfloat16(values)))
        assert same_bits(_core.widen(values, "float32"), values)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(values=st.lists(st.floats(), max_size=40))
def test_float64_rounds_as_a_cast(values: list[float], isa: str) -> None:
    wide = np.array(values, np.float64)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(_core.widen(wide, "float64"), wide.astype(np.float32))


def test_nan_stays_nan(isa: str) -> None:
    nan = (np.arange(1, 2**23, 4097, dtype=np.uint32) | 0x7F800000).view(np.float32)
    for dtype in ("float16", "bfloat16"):
        assert np.isnan(_core.widen(_core.narrow(nan, dtype), dtype)).all()


@each("offset", [1, 2, 3])
def test_sources_need_no_alignment(offset: int, isa: str) -> None:
    for dtype, size in (("float16", 2), ("bfloat16", 2), ("float32", 4), ("float64", 8)):
        data = _core.narrow(np.arange(100, dtype=np.float32), dtype)
        shifted = memoryview(b"\0" * offset + data)[offset:]
        assert len(shifted) == 100 * size
        assert same_bits(_core.widen(shifted, dtype), np.arange(100, dtype=np.float32))


@each("dtype", ["uint8", "int8", "int16", "int32", "int64", "bool"])
def test_integers_are_not_converted(dtype: str) -> None:
    with pytest.raises(Unsupported, match=dtype):
        _core.widen(b"\0" * 8, dtype)
    with pytest.raises(Unsupported, match=dtype):
        _core.narrow(np.ones(3, np.float32), dtype)
