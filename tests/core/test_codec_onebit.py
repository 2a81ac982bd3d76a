# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hipress import _core
from hipress.errors import CorruptPayload, InvalidArgument
from tests.core.codec_reference import (
    LARGEST,
    ONEBIT_BLOCK,
    SIZES,
    SMALLEST,
    awkward_inputs,
    onebit_decode,
    onebit_encode,
    same_bits,
)

onebit = _core.create_codec("onebit")
without_feedback = _core.create_codec("onebit(error_feedback=false)")
shared_fixture = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def residuals(count: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(count + 1)
    return {
        "zero": np.zeros(count, np.float32),
        "normal": generator.standard_normal(count).astype(np.float32),
    }


@pytest.mark.parametrize("count", SIZES)
def test_payload_and_residual_are_the_references_bit_for_bit(count: int, isa: str) -> None:
    for name, values in awkward_inputs(count).items():
        for residual_name, residual in residuals(count).items():
            if residual_name == "normal" and name == "largest":
                continue  # largest + 1 stays finite, but this input is about the sums
            expected_residual = residual.copy()
            expected = onebit_encode(values, expected_residual, 0.5)
            payload = onebit.encode(values, {"residual": residual}, scale=0.5)
            assert payload == expected, (name, residual_name)
            assert same_bits(residual, expected_residual), (name, residual_name)
        assert without_feedback.encode(values) == onebit_encode(values), name


@pytest.mark.parametrize("count", SIZES)
def test_decoding_assigns_and_accumulates(count: int, isa: str) -> None:
    for name, values in awkward_inputs(count).items():
        payload = onebit.encode(values)
        expected = onebit_decode(payload, count)
        assert same_bits(onebit.decode(payload, count), expected), name
        output = np.arange(count, dtype=np.float32)
        onebit.decode_into(payload, output, accumulate=True)
        assert same_bits(output, np.arange(count, dtype=np.float32) + expected), name


@pytest.mark.parametrize("count", SIZES)
def test_size_is_one_bit_per_element_and_two_means(count: int) -> None:
    expected = 0 if count == 0 else 8 + (count + 7) // 8
    assert onebit.max_encoded_bytes(count) == expected
    assert len(onebit.encode(np.ones(count, np.float32))) == expected


@pytest.mark.parametrize("count", [65535, 65536, 65537, 10**6, 2**31 - 1])
def test_every_block_has_two_means(count: int) -> None:
    assert onebit.max_encoded_bytes(count) == 8 * -(-count // ONEBIT_BLOCK) + -(-count // 8)


@pytest.mark.parametrize("count", [n for n in SIZES if n])
@pytest.mark.parametrize("block", [64, 100, 4097])
def test_blocks_have_means_of_their_own(count: int, block: int, isa: str) -> None:
    codec = _core.create_codec(f"onebit(block={block})")
    for name, values in awkward_inputs(count).items():
        residual, expected_residual = np.zeros(count, np.float32), np.zeros(count, np.float32)
        payload = codec.encode(values, {"residual": residual})
        assert payload == onebit_encode(values, expected_residual, block=block), name
        assert same_bits(residual, expected_residual), name
        assert same_bits(codec.decode(payload, count), onebit_decode(payload, count, block)), name


def test_small_tensors_are_for_the_engine_to_send_raw() -> None:
    larger_than_raw = [count for count in range(1, 100) if onebit.max_encoded_bytes(count) >= 4 * count]
    assert larger_than_raw == [1, 2]


@pytest.mark.parametrize("count", [n for n in SIZES if n])
def test_input_plus_old_residual_is_decoded_plus_new_residual(count: int, isa: str) -> None:
    for name, values in awkward_inputs(count).items():
        residual = np.zeros(count, np.float32)
        for _ in range(3):
            with np.errstate(over="ignore"):
                corrected = values + residual
            if not np.isfinite(corrected).all():
                break  # three times the largest float is no float
            decoded = onebit.decode(onebit.encode(values, {"residual": residual}), count)
            scale = np.maximum(np.abs(corrected), np.abs(decoded)).astype(np.float64)
            error = np.abs(decoded.astype(np.float64) + residual - corrected)
            assert (error <= 1e-6 * scale + SMALLEST).all(), name


def test_what_is_held_back_comes_out_later(isa: str) -> None:
    """Telescoping: the sum of 20 decoded gradients and the last residual is the sum of the 20 gradients."""
    generator = np.random.default_rng(0)
    residual = np.zeros(1000, np.float32)
    sent, wanted, size = np.zeros(1000), np.zeros(1000), np.zeros(1000)
    for step in range(20):
        gradient = generator.standard_normal(1000).astype(np.float32)
        decoded = onebit.decode(onebit.encode(gradient, {"residual": residual}, step=step), 1000)
        sent += decoded
        wanted += gradient
        size += np.abs(decoded) + np.abs(residual)
    np.testing.assert_array_less(np.abs(sent + residual - wanted), 1e-6 * size)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(("count", "at"), [(1, 0), (16, 15), (17, 16), (1000, 0), (1000, 500), (1000, 999)])
def test_non_finite_input_poisons_the_output_and_leaves_the_residual(bad: float, count: int, at: int, isa: str) -> None:
    values = np.ones(count, np.float32)
    values[at] = bad
    residual = np.random.default_rng(0).standard_normal(count).astype(np.float32)
    before = residual.copy()
    payload = onebit.encode(values, {"residual": residual})
    assert same_bits(residual, before)
    assert payload == b""
    assert np.isnan(onebit.decode(payload, count)).all()


def test_overflow_of_input_plus_residual_counts_as_non_finite(isa: str) -> None:
    residual = np.full(40, LARGEST, np.float32)
    payload = onebit.encode(np.full(40, LARGEST, np.float32), {"residual": residual})
    assert payload == b""
    assert (residual == np.float32(LARGEST)).all()


def test_millions_of_huge_values_have_a_finite_mean(isa: str) -> None:
    codec = _core.create_codec("onebit(block=16777216)")
    payload = codec.encode(np.full(2_000_003, LARGEST, np.float32))
    assert struct.unpack("<ff", payload[:8]) == (0.0, LARGEST)


def test_denormals_have_a_mean(isa: str) -> None:
    payload = onebit.encode(np.full(1000, -7 * SMALLEST, np.float32))
    assert struct.unpack("<ff", payload[:8]) == (-7 * SMALLEST, 0.0)


def test_input_is_only_read() -> None:
    values = np.ones(100, np.float32)
    values.flags.writeable = False
    onebit.encode(values, {"residual": np.zeros(100, np.float32)})


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 100])
def test_malformed_payloads_are_refused_and_leave_the_output(count: int) -> None:
    good = onebit.encode(np.ones(count, np.float32))
    bad = [good + b"\0", good[:-1]] if good else [b"\0", b"\0" * 8]
    bad += [b"\0" * 7, b"\0" * 9] if count > 8 else []
    if count % 8:
        bad += [good[:-1] + bytes([good[-1] | 0x80]), good[:-1] + bytes([good[-1] | 1 << count % 8])]
    for payload in bad:
        for accumulate in (False, True):
            output = np.full(count, 5, np.float32)
            with pytest.raises(CorruptPayload, match="onebit"):
                onebit.decode_into(payload, output, accumulate=accumulate)
            assert (output == 5).all()


@given(payload=st.binary(max_size=40), count=st.integers(0, 200))
def test_any_bytes_decode_or_are_refused(payload: bytes, count: int) -> None:
    output = np.full(count, 5, np.float32)
    try:
        onebit.decode_into(payload, output)
    except CorruptPayload:
        assert (output == 5).all()
    else:
        assert same_bits(output, onebit_decode(payload, count))


@shared_fixture
@given(data=st.data())
def test_any_input_encodes_as_the_reference(data: st.DataObject, isa: str) -> None:
    count = data.draw(st.integers(0, 100))
    floats = st.floats(width=32)
    values = data.draw(arrays(np.float32, count, elements=floats))
    residual = data.draw(arrays(np.float32, count, elements=st.floats(width=32, allow_nan=False, allow_infinity=False)))
    expected_residual = residual.copy()
    expected = onebit_encode(values, expected_residual)
    assert onebit.encode(values, {"residual": residual}) == expected
    assert same_bits(residual, expected_residual)


def test_wrong_calls_are_refused() -> None:
    values = np.ones(10, np.float32)
    with pytest.raises(InvalidArgument, match="9 elements"):
        onebit.encode(values, {"residual": np.zeros(9, np.float32)})
    with pytest.raises(InvalidArgument, match="keeps none"):
        without_feedback.encode(values, {"residual": np.zeros(10, np.float32)})
    with pytest.raises(TypeError):
        onebit.encode(values.astype(np.float64))
    with pytest.raises(TypeError):
        onebit.encode(np.ones(20, np.float32)[::2])
    read_only = np.zeros(10, np.float32)
    read_only.flags.writeable = False
    with pytest.raises(InvalidArgument, match="read-only"):
        onebit.encode(values, {"residual": read_only})
