# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hipress import _core
from hipress.errors import CorruptPayload, InvalidArgument
from tests.cases import each
from tests.core.codec_reference import LARGEST, SIZES, awkward_inputs, from_half, same_bits, to_half

none = _core.create_codec("none")
fp16 = _core.create_codec("fp16")
NON_FINITE = np.array([np.nan, np.inf, -np.inf, 1, -0.0], np.float32)


@each("count", SIZES)
def test_none_carries_the_values(count: int, isa: str) -> None:
    for name, values in awkward_inputs(count).items():
        payload = none.encode(values)
        assert payload == values.tobytes(), name
        assert none.max_encoded_bytes(count) == len(payload)
        assert none.encode(values, scale=0.25) == (values * np.float32(0.25)).tobytes(), name
        assert same_bits(none.decode(payload, count), values), name
        output = np.ones(count, np.float32)
        none.decode_into(payload, output, accumulate=True)
        assert same_bits(output, np.float32(1) + values), name


@each("count", SIZES)
def test_fp16_carries_the_rounded_values(count: int, isa: str) -> None:
    for name, values in awkward_inputs(count).items():
        payload = fp16.encode(values)
        assert payload == to_half(values).tobytes(), name
        assert fp16.max_encoded_bytes(count) == len(payload) == 2 * count
        decoded = from_half(np.frombuffer(payload, np.uint16))
        assert same_bits(fp16.decode(payload, count), decoded), name
        output = np.ones(count, np.float32)
        fp16.decode_into(payload, output, accumulate=True)
        assert same_bits(output, np.float32(1) + decoded), name


def test_fp16_scales_in_float32_before_it_rounds(isa: str) -> None:
    values = np.full(100, 1e6, np.float32)
    assert (fp16.decode(fp16.encode(values, scale=1e-3), 100) == 1000).all()


def test_fp16_overflow_is_infinity_as_in_a_cast(isa: str) -> None:
    values = np.array([65504, 65519.996, 65520, -65520, LARGEST, -LARGEST] * 5, np.float32)
    expected = np.array([65504, 65504, np.inf, -np.inf, np.inf, -np.inf] * 5, np.float32)
    assert same_bits(fp16.decode(fp16.encode(values), 30), expected)


@each("codec", [none, fp16])
def test_non_finite_values_stay(codec: _core.Codec, isa: str) -> None:
    for copies in (1, 7):
        values = np.tile(NON_FINITE, copies)
        np.testing.assert_array_equal(codec.decode(codec.encode(values), len(values)), values)


@each("codec", [none, fp16])
def test_states_are_refused(codec: _core.Codec) -> None:
    assert codec.states == ()
    with pytest.raises(InvalidArgument, match=r"residual.*keeps none"):
        codec.encode(np.ones(3, np.float32), {"residual": np.zeros(3, np.float32)})


@pytest.mark.parametrize("codec", [none, fp16])
@given(payload=st.binary(max_size=40), count=st.integers(0, 20))
def test_any_bytes_decode_or_are_refused(codec: _core.Codec, payload: bytes, count: int) -> None:
    output = np.full(count, 5, np.float32)
    if len(payload) in (0, codec.max_encoded_bytes(count)):
        codec.decode_into(payload, output)
        return
    for accumulate in (False, True):
        with pytest.raises(CorruptPayload, match=codec.name):
            codec.decode_into(payload, output, accumulate=accumulate)
        assert (output == 5).all()
