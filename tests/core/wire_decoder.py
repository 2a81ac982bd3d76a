# SPDX-License-Identifier: Apache-2.0
"""A slow decoder of HiPress messages, written from docs/wire-format.md alone: only `struct`, no NumPy, no HiPress.

Independent on purpose: where it and the library disagree, one of the two, or the document, is wrong.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

RAW, ABSENT, CHECKSUM = 1, 2, 4
NONE, FP16, ONEBIT = 0, 1, 16

# dtype number: (bytes per element, struct format of one element; bfloat16 has none)
DTYPES = {
    0: (4, "<f"),
    1: (8, "<d"),
    2: (2, "<e"),
    3: (2, None),
    4: (1, "<B"),
    5: (1, "<b"),
    6: (4, "<i"),
    7: (8, "<q"),
    8: (1, "<B"),
    9: (2, "<h"),
}


@dataclass
class Message:
    version: int
    flags: int
    codec: int
    element_count: int
    checksum: int
    dtype: int
    values: list[float] | None  # None: the sender has no gradient


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def bfloat16(data: bytes) -> float:
    value: float = struct.unpack("<f", b"\0\0" + data)[0]
    return value


def decode_elements(payload: bytes, dtype: int, count: int) -> list[float]:
    size, form = DTYPES[dtype]
    assert len(payload) == size * count
    pieces = [payload[i : i + size] for i in range(0, len(payload), size)]
    return [bfloat16(piece) if form is None else struct.unpack(form, piece)[0] for piece in pieces]


def decode_onebit(payload: bytes, count: int) -> list[float]:
    if count == 0:
        assert payload == b""
        return []
    assert len(payload) == 8 + (count + 7) // 8
    negative, non_negative = struct.unpack("<ff", payload[:8])
    bits = [(payload[8 + j // 8] >> (j % 8)) & 1 for j in range((len(payload) - 8) * 8)]
    assert not any(bits[count:])
    return [non_negative if bit else negative for bit in bits[:count]]


def decode_message(message: bytes) -> Message:
    magic, version, flags, codec, count, size, checksum, dtype = struct.unpack("<2sBBIQQIB", message[:29])
    payload = message[32:]
    assert magic == b"HP"
    assert version == 1
    assert flags & ~(RAW | ABSENT | CHECKSUM) == 0
    assert not (flags & RAW and flags & ABSENT)
    assert message[29:32] == b"\0\0\0"
    assert len(payload) == size
    assert checksum == (crc32c(payload) if flags & CHECKSUM else 0)
    if flags & ABSENT:
        assert size == 0
        values = None
    elif flags & RAW:
        values = decode_elements(payload, dtype, count)
    elif size == 0 and count > 0:
        values = [float("nan")] * count  # the sender's values were not finite
    elif codec == NONE:
        values = decode_elements(payload, 0, count)
    elif codec == FP16:
        values = decode_elements(payload, 2, count)
    elif codec == ONEBIT:
        values = decode_onebit(payload, count)
    else:
        raise AssertionError(f"codec {codec} is not in the document")
    return Message(version, flags, codec, count, checksum, dtype, values)
