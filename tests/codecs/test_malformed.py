# SPDX-License-Identifier: Apache-2.0
"""decode raises CorruptPayload for malformed payloads and messages with a wrong bit, and leaves the output
unchanged."""

from __future__ import annotations

import struct
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hipress import _core
from hipress.errors import CorruptPayload
from tests.cases import each
from tests.codecs.builtin import NAMES, SPARSE, TEXTS, Builtin, Guarded, builtin, new_states, normal, same
from tests.core import wire_decoder

COUNTS = [1, 7, 37, 200]
finite = st.floats(width=32, allow_nan=False, allow_infinity=False)


def refused(of: Builtin, payload: bytes, count: int) -> None:
    """Checks that decode, accumulating decode and the interpreter refuse the payload, and write nothing."""
    for accumulate in (False, True):
        output = Guarded(count)
        with pytest.raises(CorruptPayload, match=f"codec {of.name}: "):
            of.codec.decode_into(payload, output.array, accumulate=accumulate)
        assert output.untouched()
    with pytest.raises(CorruptPayload):
        of.definition.decode(payload, count)


def decoded_as_documented_or_refused(of: Builtin, payload: bytes, count: int) -> None:
    output = Guarded(count)
    try:
        of.codec.decode_into(payload, output.array)
    except CorruptPayload:
        assert output.untouched()
        with pytest.raises(AssertionError):
            wire_decoder.decode_payload(of.codec.id, payload, count, of.options)
        return
    expected = wire_decoder.decode_payload(of.codec.id, payload, count, of.options)
    with np.errstate(all="ignore"):
        assert same(output.array, np.array(expected, np.float32))
    assert output.intact_around()


@each("text", TEXTS)
def test_cut_and_extended(text: str) -> None:
    of = builtin(text)
    for count in COUNTS:
        good = of.codec.encode(normal(count))
        for size in range(1, len(good)):
            refused(of, good[:size], count)
        for more in (b"\0", b"\1", bytes(4), bytes(8), bytes(100)):
            refused(of, good + more, count)
    for payload in (b"\0", bytes(4), bytes(8)):
        refused(of, payload, 0)


@each("text", TEXTS)
def test_every_flipped_bit_of_a_payload_is_refused_or_another_payload(text: str) -> None:
    of = builtin(text)
    for count in (1, 7, 37):
        good = of.codec.encode(normal(count))
        for bit in range(8 * len(good)):
            bad = bytearray(good)
            bad[bit // 8] ^= 1 << bit % 8
            decoded_as_documented_or_refused(of, bytes(bad), count)


@pytest.mark.parametrize("text", TEXTS)
@settings(deadline=None, max_examples=30)
@given(payload=st.binary(max_size=80), count=st.integers(0, 200))
def test_any_bytes_are_refused_or_a_payload(text: str, payload: bytes, count: int) -> None:
    decoded_as_documented_or_refused(builtin(text), payload, count)


@each(
    "text",
    [
        text
        for text in TEXTS
        if text.startswith(("onebit", "tbq", "terngrad", "int4", "fp4", "natural", "efsign")) and "=8" not in text
    ],
)
def test_set_padding_bits(text: str) -> None:
    of = builtin(text)
    width = {"onebit": 1, "tbq": 2, "int4": 4, "fp4_e2m1": 4, "natural": 1, "efsignsgd": 1}.get(of.name) or int(
        of.definition.params["bitwidth"]
    )
    for count in range(1, 20):
        good = of.codec.encode(normal(count))
        for bit in range(count * width % 8 or 8, 8):
            refused(of, good[:-1] + bytes([good[-1] | 1 << bit]), count)


def sparse(indices: Iterable[int], count: int | None = None) -> bytes:
    chosen = list(indices)
    values = np.arange(1, len(chosen) + 1, dtype=np.float32)
    return (
        struct.pack("<i", len(chosen) if count is None else count)
        + np.array(chosen, "<i4").tobytes()
        + values.tobytes()
    )


@each("name", SPARSE)
def test_indices(name: str) -> None:
    of = builtin(f"{name}(ratio=0.05)")
    for good in ([], [0], [99], [0, 1, 2, 3, 4], [3, 50, 99]):
        assert np.flatnonzero(of.codec.decode(sparse(good), 100)).tolist() == good
    for bad in (
        [100],
        [-1],
        [2**31 - 1],
        [-(2**31)],
        [3, 3],
        [4, 3],
        [0, 5, 4, 6],
        [98, 99, 100],
        [-1, 0],
        [0, 0, 0, 0, 0],
    ):
        refused(of, sparse(bad), 100)


@each("name", SPARSE)
def test_long_lists_of_indices_with_one_that_is_wrong(name: str, isa: str) -> None:
    """The check reads groups of indices at once, so the wrong index stands at each place of such a group."""
    of, count = builtin(f"{name}(ratio=0.5)"), 2000
    good = np.arange(0, count, 2)
    assert np.count_nonzero(of.codec.decode(sparse(good), count)) == 1000
    for at in [*range(1, 40), 511, 512, 513, 998, 999]:
        for value in (good[at - 1], -2, count):
            bad = good.copy()
            bad[at] = value
            refused(of, sparse(bad), count)


@each("name", SPARSE)
def test_counts(name: str) -> None:
    of = builtin(f"{name}(ratio=0.05)")
    refused(of, sparse(range(6)), 100)  # at most ⌈100·0.05⌉ = 5 indices are allowed
    assert np.count_nonzero(of.codec.decode(sparse(range(6)), 101)) == 6
    for count in (-1, -(2**31), 4, 6, 2**31 - 1, 1 << 29, 1 << 30, (1 << 30) + 1):
        refused(of, sparse(range(5), count), 100)
    refused(of, sparse([], -1), 100)


def receive(of: Builtin, message: bytes, count: int, output: np.ndarray) -> None:
    """Decodes a message as the engine does, with the specification that the ranks agreed on."""
    header = _core.unpack_header(message[:32], of.codec.id, "float32", count, of.codec.max_encoded_bytes(count))
    payload = message[32:]
    if header.payload_bytes != len(payload):
        raise CorruptPayload("payload size")
    _core.verify_checksum(header, payload)
    of.codec.decode_into(payload, output)


@each("text", TEXTS)
def test_messages_with_one_flipped_bit_or_of_another_codec_are_refused(text: str) -> None:
    of, count = builtin(text), 100
    payload = of.codec.encode(normal(count))
    checksum = _core.crc32c(payload)
    message = _core.pack_header(of.codec.id, "float32", count, len(payload), _core.FLAG_CHECKSUM, checksum) + payload
    output = Guarded(count)
    receive(of, message, count, output.array)
    output = Guarded(count)
    for bit in range(8 * len(message)):
        if bit // 8 in (30, 31):
            continue  # the sender's count of updates; the engine compares it with its own count
        bad = bytearray(message)
        bad[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptPayload):
            receive(of, bytes(bad), count, output.array)
    for size in range(32, len(message)):
        with pytest.raises(CorruptPayload):
            receive(of, message[:size], count, output.array)
    for other in NAMES:
        if other != of.name:
            with pytest.raises(CorruptPayload, match="codec"):
                receive(builtin(other), message, count, output.array)
    with pytest.raises(CorruptPayload, match="version"):
        receive(of, message[:2] + b"\2" + message[3:], count, output.array)
    assert output.untouched()


@pytest.mark.parametrize("text", TEXTS)
@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_no_payload_is_longer_than_the_bound(text: str, data: st.DataObject) -> None:
    """encode writes nothing behind the bound, not even temporarily."""
    of, count = builtin(text), data.draw(st.integers(0, 300))
    gradient = data.draw(arrays(np.float32, count, elements=st.floats(width=32), fill=finite))
    states = new_states(of, count)
    before = [data.draw(arrays(np.float32, count, elements=finite, fill=finite)) for _ in states]
    bound = of.codec.max_encoded_bytes(count)
    payload, after = Guarded(bound, np.uint8), [Guarded(count) for _ in states]
    size = of.codec.encode_into(gradient, before, [each.array for each in after], payload.array, seed=3)
    assert size <= bound
    assert payload.intact_around()
    assert all(each.intact_around() for each in after)
    if size:
        decoded = Guarded(count)
        of.codec.decode_into(payload.array[:size], decoded.array)
        assert decoded.intact_around()
