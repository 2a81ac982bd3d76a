# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hipress import _core
from hipress.errors import CorruptPayload
from tests.cases import each
from tests.codecs.builtin import NAMES
from tests.core import wire_decoder
from tests.core.codec_reference import SIZES, awkward_inputs, same_bits, to_bfloat16, to_half

DOCUMENT = Path(__file__).parents[2] / "docs" / "wire-format.md"
RAW, ABSENT, CHECKSUM = _core.FLAG_RAW, _core.FLAG_ABSENT, _core.FLAG_CHECKSUM
REFERENCE, PACKED = _core.FLAG_REFERENCE, _core.FLAG_PACKED
CODECS = ["none", "fp16", *NAMES]
AGREED: dict[str, Any] = {"codec": 16, "dtype": "float32", "element_count": 100, "max_payload_bytes": 21}


def packed(**changes: int | str) -> bytes:
    fields: dict[str, Any] = {"codec": 16, "dtype": "float32", "element_count": 100, "payload_bytes": 21} | changes
    return _core.pack_header(**fields)


def patched(offset: int, replacement: bytes, header: bytes | None = None) -> bytes:
    header = packed() if header is None else header
    return header[:offset] + replacement + header[offset + len(replacement) :]


def test_fields_come_back() -> None:
    header = _core.unpack_header(packed(flags=CHECKSUM, checksum=0xDEADBEEF), **AGREED)
    assert (header.version, header.flags, header.codec, header.dtype) == (1, CHECKSUM, 16, "float32")
    assert (header.element_count, header.payload_bytes, header.checksum) == (100, 21, 0xDEADBEEF)


def test_layout_is_little_endian() -> None:
    header = _core.pack_header(0x04030201, "int16", 0x0807060504030201, 0x1817161514131211, 7, 0x24232221)
    expected = "4850 01 07 01020304 0102030405060708 1112131415161718 21222324 09 000000"
    assert header == bytes.fromhex(expected.replace(" ", ""))


@each(
    ("header", "field"),
    [
        (patched(0, b"XP"), "magic"),
        (patched(2, b"\0"), "version"),
        (patched(2, b"\2"), "version"),
        (patched(3, b"\x10"), "flags"),
        (patched(3, bytes([REFERENCE])), "flags"),
        (packed(flags=RAW | REFERENCE, payload_bytes=16), "flags"),
        (patched(3, b"\x80"), "flags"),
        (patched(3, bytes([RAW | ABSENT])), "flags"),
        (patched(4, b"\1"), "codec"),
        (patched(8, b"\x63"), "element count"),
        (patched(15, b"\x80"), "element count"),
        (patched(16, b"\x16"), "payload size"),
        (patched(23, b"\xff"), "payload size"),
        (patched(24, b"\1"), "checksum"),
        (patched(28, b"\1"), "dtype"),
        (patched(28, b"\x0a"), "dtype"),
        (patched(28, b"\xff"), "dtype"),
        (patched(29, b"\1"), "reserved"),
        (packed(flags=RAW), "payload size"),
        (packed(flags=RAW, payload_bytes=399), "payload size"),
        (packed(flags=RAW, payload_bytes=404), "payload size"),
        (packed(flags=ABSENT), "payload size"),
    ],
)
def test_every_wrong_field_is_named(header: bytes, field: str) -> None:
    with pytest.raises(CorruptPayload, match=f"{field}.* is .*expected"):
        _core.unpack_header(header, **AGREED)


def test_raw_and_absent_messages_are_accepted() -> None:
    assert _core.unpack_header(packed(flags=RAW, payload_bytes=400), **AGREED).flags == RAW
    assert _core.unpack_header(packed(flags=ABSENT, payload_bytes=0), **AGREED).flags == ABSENT


@each("count", [0, 1, 2, 7, 100, 101])
def test_packed_messages_have_half_a_byte_for_each_element(count: int) -> None:
    agreed: dict[str, Any] = {"codec": 0, "dtype": "int8", "element_count": count, "max_payload_bytes": count}
    size = (count + 1) // 2
    header = _core.pack_header(0, "int8", count, size, RAW | PACKED)
    assert _core.unpack_header(header, **agreed, may_pack=True).flags == RAW | PACKED
    for flags, wrong, field, may_pack in (
        (RAW | PACKED, size + 1, "payload size", True),
        (RAW | PACKED, size, "flags", False),
        (PACKED, size, "flags", True),
        (RAW | PACKED | REFERENCE, 16, "flags", True),
        (RAW | PACKED | _core.FLAG_TRIMMED, size, "flags", True),
    ):
        header = _core.pack_header(0, "int8", count, wrong, flags)
        with pytest.raises(CorruptPayload, match=f"{field}.* is .*expected"):
            _core.unpack_header(header, **agreed, may_pack=may_pack)


@each("count", [0, 1, 2, 7, 100, 101])
def test_the_documents_decoder_reads_packed_messages(count: int) -> None:
    values = np.random.default_rng(count).integers(-8, 8, count, np.int8)
    data = _core.pack_nibbles(values)
    assert data is not None
    decoded = wire_decoder.decode_message(_core.pack_header(0, "int8", count, len(data), RAW | PACKED) + data)
    assert decoded.values == values.tolist()


@each("dtype", ["float64", "float32", "float16", "bool"])
def test_raw_sizes_do_not_overflow(dtype: str) -> None:
    """The element counts have a size in bytes that, modulo 2^64, equals the payload's size."""
    for count in (2**61, 2**62, 2**63, 2**64 - 1):
        header = _core.pack_header(16, dtype, count, 0, RAW)
        with pytest.raises(CorruptPayload, match="payload size"):
            _core.unpack_header(header, 16, dtype, count, 0)


@given(st.binary(min_size=32, max_size=32))
def test_any_bytes_are_refused_unless_they_are_what_was_agreed(header: bytes) -> None:
    with pytest.raises(CorruptPayload):
        _core.unpack_header(header, **AGREED)


@given(st.integers(0, 32 * 8 - 1))
def test_flipped_bits_are_noticed_or_harmless(bit: int) -> None:
    """A flipped bit may pass only in fields where every value is allowed: a smaller payload size, the checksum and its
    flag, or the number of updates, which the engine compares.
    """
    good = packed(flags=CHECKSUM, checksum=0x12345678)
    bad = bytearray(good)
    bad[bit // 8] ^= 1 << bit % 8
    try:
        header = _core.unpack_header(bytes(bad), **AGREED)
    except CorruptPayload:
        return
    assert header.payload_bytes < 21 or header.checksum != 0x12345678 or header.updates != 0


@each(("data", "value"), [(b"", 0), (b"123456789", 0xE3069283), (b"\0" * 32, 0x8A9136AA)])
def test_crc32c_known_values(data: bytes, value: int, isa: str) -> None:
    assert _core.crc32c(data) == value


@each("count", SIZES)
def test_crc32c_of_every_length(count: int, isa: str) -> None:
    data = np.random.default_rng(count).bytes(count)
    assert _core.crc32c(data) == wire_decoder.crc32c(data)


@each("block", [256, 4096])
def test_crc32c_of_every_block_count_and_alignment(block: int, isa: str) -> None:
    """The lengths are near multiples of the blocks that the code sums side by side; the data begins at any address."""
    data = np.random.default_rng(block).integers(0, 256, 8 * block, dtype=np.uint8)
    lengths = [n * block + extra for n in (1, 2, 3, 4, 6, 7) for extra in (-9, -1, 0, 1, 8, 255)]
    for offset in (0, 1, 4, 7):
        for length in lengths if offset else [*range(900), *lengths]:
            part = data[offset : offset + length]
            found = _core.crc32c(part)
            _core.set_isa_level("generic")
            expected = _core.crc32c(part)
            _core.set_isa_level(isa)
            assert found == expected, (offset, length)


def test_checksum_is_verified_only_when_flagged() -> None:
    payload = bytes(range(21))
    good = _core.unpack_header(packed(flags=CHECKSUM, checksum=_core.crc32c(payload)), **AGREED)
    _core.verify_checksum(good, payload)
    with pytest.raises(CorruptPayload, match="CRC-32C"):
        _core.verify_checksum(good, payload[:-1] + b"\0")
    _core.verify_checksum(_core.unpack_header(packed(), **AGREED), b"anything")


def message(codec: _core.Codec, values: np.ndarray, checksum: bool = True) -> bytes:
    payload = codec.encode(values)
    flags, crc = (CHECKSUM, _core.crc32c(payload)) if checksum else (0, 0)
    return _core.pack_header(codec.id, "float32", len(values), len(payload), flags, crc) + payload


@pytest.mark.parametrize("text", CODECS)
@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 65, 1025])
def test_the_documents_decoder_reads_our_messages(text: str, count: int) -> None:
    codec = _core.create_codec(text)
    for name, values in awkward_inputs(count).items():
        for checksum in (False, True):
            decoded = wire_decoder.decode_message(message(codec, values, checksum))
            ours = codec.decode(codec.encode(values), count)
            np.testing.assert_array_equal(np.array(decoded.values, np.float32), ours, err_msg=name)
            assert (decoded.codec, decoded.element_count, decoded.dtype) == (codec.id, count, 0)


@pytest.mark.parametrize("text", CODECS)
def test_an_empty_message_is_not_a_number_everywhere(text: str) -> None:
    codec = _core.create_codec(text)
    header = _core.pack_header(codec.id, "float32", 5, 0, CHECKSUM, _core.crc32c(b""))
    accepted = _core.unpack_header(header, codec.id, "float32", 5, codec.max_encoded_bytes(5))
    assert (accepted.payload_bytes, accepted.checksum) == (0, 0)
    _core.verify_checksum(accepted, b"")
    assert np.isnan(wire_decoder.decode_message(header).values).all()
    for accumulate in (False, True):
        output = np.ones(5, np.float32)
        codec.decode_into(b"", output, accumulate=accumulate)
        assert np.isnan(output).all()
    assert codec.encode(np.zeros(0, np.float32)) == b""
    with pytest.raises(CorruptPayload, match="0 elements"):
        codec.decode(b"x", 0)


def test_the_documents_decoder_reads_raw_and_absent_messages() -> None:
    values = np.array([1, -2, 3.5, 100], np.float32)
    elements: dict[str, np.ndarray] = {
        "float32": values,
        "float64": values.astype(np.float64),
        "float16": to_half(values),
        "bfloat16": to_bfloat16(values),
        "int8": values.astype(np.int8),
        "int16": values.astype(np.int16),
        "int32": values.astype(np.int32),
        "int64": values.astype(np.int64),
        "uint8": np.abs(values).astype(np.uint8),
        "bool": values > 0,
    }
    for dtype, array in elements.items():
        data = array.tobytes()
        decoded = wire_decoder.decode_message(_core.pack_header(16, dtype, 4, len(data), RAW) + data)
        plain = values if dtype in ("float16", "bfloat16") else array
        assert decoded.values == plain.tolist(), dtype
    assert wire_decoder.decode_message(_core.pack_header(16, "float32", 4, 0, ABSENT)).values is None


@pytest.mark.parametrize(
    ("number", "text", "options", "decoded"),
    [
        (0, "onebit", {}, [4, -3.125, 4, -3.125, 4, -3.125, 4, 4, -3.125, 4]),
        (1, "dgc(ratio=0.25)", {"ratio": 0.25}, [0, 0, 0, 0, 0, -6, 7, 8, 0, 0]),
        (
            2,
            "terngrad(bitwidth=4, stochastic=false)",
            {"bitwidth": 4},
            [1.4666667, -2.2666667, 3.333333, -4.133333, 5.2, -6, 7.0666666, 8, -0.4000001, -0.4000001],
        ),
    ],
)
def test_the_documents_examples_are_what_we_send(
    number: int, text: str, options: dict[str, float], decoded: list[float]
) -> None:
    dumps = re.findall(r"```hexdump\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    assert len(dumps) == 4  # the last dump is a bundle
    data = b"".join(bytes.fromhex(line[6:53].replace(" ", "")) for line in dumps[number].splitlines())
    values = np.array([1, -2, 3, -4, 5, -6, 7, 8, -0.5, 0], np.float32)
    codec = _core.create_codec(text)
    assert message(codec, values) == data
    expected = np.array(decoded, np.float32)
    assert same_bits(np.array(wire_decoder.decode_message(data, **options).values, np.float32), expected)
    assert same_bits(codec.decode(data[32:], 10), expected)


def test_the_documents_tables_have_our_numbers() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    for codec in CODECS:
        assert re.search(rf"^\| {_core.create_codec(codec).id} \| `{codec}`", text, re.MULTILINE), codec
    for name in ("float32", "float64", "float16", "bfloat16", "uint8", "int8", "int32", "int64", "bool", "int16"):
        number = _core.pack_header(0, name, 0, 0)[28]
        size = wire_decoder.DTYPES[number][0]
        assert re.search(rf"^\| {number} \| {name} \| {size} \|", text, re.MULTILINE), name
    described = {codec["id"]: codec for codec in _core.describe_codecs()}
    for number, defaults in wire_decoder.DEFAULTS.items():
        page = re.search(rf"\n### [^\n]*{described[number]['name']}(.*?)\n#", text, re.DOTALL)
        assert page is not None
        for option in described[number]["options"]:
            if option["name"] in defaults:
                assert float(option["default"]) == defaults[option["name"]]
                assert f"Option `{option['name']}` ({option['default']})" in page.group(1), option
    assert struct.calcsize("<2sBBIQQIB3x") == 32
