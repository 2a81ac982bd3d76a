# SPDX-License-Identifier: Apache-2.0
"""A slow decoder of HiPress messages, written from docs/wire-format.md alone with the standard library alone.

It is independent on purpose: if it and the library disagree, one of them, or the document, is wrong.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass

RAW, ABSENT, CHECKSUM, PACKED = 1, 2, 4, 32
NONE, FP16, ONEBIT, TBQ, TERNGRAD, DGC, GRADDROP, BF16, INT8, INT4 = 0, 1, 16, 17, 18, 19, 20, 21, 22, 23
FP8_E4M3, FP8_E5M2, FP4_E2M1, EFSIGNSGD, QSGD, NATURAL, TOPK, THRESHOLD, RANDOMK = 24, 25, 26, 27, 28, 29, 30, 31, 32
INT8_SHARED, THC = 40, 41
U8BIT = 33
DYNAMIQ = 34

# The bits of the exponent and of the mantissa of the codecs with small floats.
SMALL_FLOATS = {FP8_E4M3: (4, 3), FP8_E5M2: (5, 2), FP4_E2M1: (2, 1)}

# The codecs' default options.
DEFAULTS: dict[int, dict[str, float]] = {
    ONEBIT: {"block": 32768},
    TBQ: {"threshold": 0.05},
    TERNGRAD: {"bitwidth": 2, "block": 1024},
    DGC: {"ratio": 0.001},
    GRADDROP: {"ratio": 0.001},
    INT8: {"block": 256},
    INT4: {"block": 256},
    INT8_SHARED: {"levels": 15, "block": 256},
    THC: {"levels": 7},
    **{number: {"block": 256} for number in SMALL_FLOATS},
    EFSIGNSGD: {"block": 32768},
    QSGD: {"block": 512},
    TOPK: {"ratio": 0.01},
    THRESHOLD: {"ratio": 0.25},
    RANDOMK: {"ratio": 0.01},
    U8BIT: {"block": 4096},
    DYNAMIQ: {"block": 64},
}

# By dtype number: bytes per element, and struct's format of one element; struct has none for bfloat16.
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
INT8_ELEMENT = 5


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


def rounded(value: float) -> float:
    """The value rounded to float32. A sum or product of two float32 values may be rounded to float64 first without a
    difference."""
    try:
        result: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return result


def unpacked(data: bytes, width: int, count: int) -> list[int]:
    assert len(data) == (count * width + 7) // 8
    elements = [data[j * width // 8] >> (j * width % 8) & ((1 << width) - 1) for j in range(len(data) * 8 // width)]
    assert not any(elements[count:])
    return elements[:count]


def decode_onebit(payload: bytes, count: int, block: int) -> list[float]:
    blocks = (count + block - 1) // block
    means = decode_elements(payload[: 8 * blocks], 0, 2 * blocks)
    low, high = means[:blocks], means[blocks:]
    signs = unpacked(payload[8 * blocks :], 1, count)
    return [(high if sign else low)[j // block] for j, sign in enumerate(signs)]


def decode_tbq(payload: bytes, count: int, threshold: float) -> list[float]:
    return [rounded((code - 1) * rounded(threshold)) for code in unpacked(payload, 2, count)]


def decode_terngrad(payload: bytes, count: int, bitwidth: int, block: int) -> list[float]:
    blocks = (count + block - 1) // block
    scalars = decode_elements(payload[: 8 * blocks], 0, 2 * blocks)
    bound = rounded(1.7014117e38)
    values = []
    for j, code in enumerate(unpacked(payload[8 * blocks :], bitwidth, count)):
        least, step = scalars[j // block], scalars[blocks + j // block]
        half = rounded(rounded(code * step) + rounded(least * 0.5))
        values.append(rounded(2 * (bound if bound < half else half)))
    return values


def decode_block_scaled(payload: bytes, count: int, width: int, block: int) -> list[float]:
    blocks = (count + block - 1) // block
    scales = decode_elements(payload[: 4 * blocks], 0, blocks)
    levels = [code - (1 << width) * (code >> (width - 1)) for code in unpacked(payload[4 * blocks :], width, count)]
    return [rounded(level * scales[j // block]) for j, level in enumerate(levels)]


def decode_int8_shared(payload: bytes, count: int, levels: int, block: int) -> list[float]:
    blocks, bound = (count + block - 1) // block, rounded(2.6793884e36)
    greatest = decode_elements(payload[: 4 * blocks], 0, blocks)
    scales = [bound if bound < (scale := rounded(value / levels)) else scale for value in greatest]
    signed = [code - 256 * (code >> 7) for code in unpacked(payload[4 * blocks :], 8, count)]
    return [rounded(level * scales[j // block]) for j, level in enumerate(signed)]


def thc_sign(place: int) -> int:
    """The sign of a place, from 32 bits with wrap-around; a right shift keeps the sign."""

    def signed(bits: int) -> int:
        return (bits + 2**31) % 2**32 - 2**31

    first = signed(-1640531535 * place)
    second = signed((first ^ first >> 15) * -2048144777)
    return -1 if signed((second ^ second >> 13) * -1028477379) < 0 else 1


def decode_thc(payload: bytes, count: int, levels: int) -> list[float]:
    blocks, bound = (count + 1023) // 1024, 2.0**116
    most = decode_elements(payload[: 4 * blocks], 0, blocks)
    scales = [min(rounded(value / levels), bound) for value in most]
    signed = [float(code - 256 * (code >> 7)) for code in unpacked(payload[4 * blocks :], 8, count)]
    for first in range(0, count // 1024 * 1024, 1024):
        for bit in range(10):
            for j in (j for j in range(first, first + 1024) if not j >> bit & 1):
                a, b = signed[j], signed[j | 1 << bit]
                signed[j], signed[j | 1 << bit] = a + b, a - b
        signed[first : first + 1024] = [value / 32 for value in signed[first : first + 1024]]
    return [rounded(thc_sign(j) * value * scales[j // 1024]) for j, value in enumerate(signed)]


def decode_small_floats(payload: bytes, count: int, exponent: int, mantissa: int, block: int) -> list[float]:
    width, blocks = 1 + exponent + mantissa, (count + block - 1) // block
    scales = decode_elements(payload[: 4 * blocks], 0, blocks)
    values, bias = [], 2 ** (exponent - 1) - 1
    for j, code in enumerate(unpacked(payload[4 * blocks :], width, count)):
        power, fraction = code >> mantissa & (1 << exponent) - 1, code & (1 << mantissa) - 1
        whole = fraction + (1 << mantissa if power else 0)
        value = math.ldexp(whole, max(power, 1) - bias - mantissa)
        values.append(rounded((-value if code >> width - 1 else value) * scales[j // block]))
    return values


def decode_efsignsgd(payload: bytes, count: int, block: int) -> list[float]:
    blocks = (count + block - 1) // block
    means = decode_elements(payload[: 4 * blocks], 0, blocks)
    signs = unpacked(payload[4 * blocks :], 1, count)
    return [-means[j // block] if negative else means[j // block] for j, negative in enumerate(signs)]


def decode_u8bit(payload: bytes, count: int, block: int) -> list[float]:
    blocks = (count + block - 1) // block
    scales = decode_elements(payload[: 4 * blocks], 0, blocks)
    magnitudes = [0.0]
    for code in range(1, 128):
        length = code.bit_length() - 1
        magnitudes.append(rounded((9 * code - 8 * 2**length + 4.5) / (2**length * 10 ** (7 - length))))
    values = []
    for j, code in enumerate(unpacked(payload[4 * blocks :], 8, count)):
        value = rounded(magnitudes[code % 128] * scales[j // block])
        values.append(-value if code >= 128 else value)
    return values


def decode_dynamiq(payload: bytes, count: int, block: int) -> list[float]:
    blocks = (count + block - 1) // block
    assert len(payload) >= 4
    (number,) = struct.unpack("<i", payload[:4])
    assert number >= 0
    assert len(payload) == 6 + 4 * number + 2 * blocks
    limit, *scales = struct.unpack(f"<{1 + blocks}H", payload[4 + 4 * number :])
    values, at = [], 4
    for j, scale in enumerate(scales):
        here, above = min(block, count - j * block), (scale & 32767) + limit - 32767
        width = 2 + min(max(-(-above // 128), 0), 6)
        words = int.from_bytes(payload[at : at + 4 * -(-here * width // 32)], "little")
        at += 4 * -(-here * width // 32)
        step = bfloat16(scale.to_bytes(2, "little")) / 2 ** (width - 1)
        values += [(2 ** (width - 1) - (words >> i * width & (1 << width) - 1)) * step for i in range(here)]
    assert at == 4 + 4 * number
    return values


def decode_natural(payload: bytes, count: int) -> list[float]:
    exponents, signs = payload[:count], unpacked(payload[count:], 1, count)
    bits = [exponent << 23 | negative << 31 for exponent, negative in zip(exponents, signs, strict=True)]
    return decode_elements(b"".join(struct.pack("<I", each) for each in bits), 0, count)


def decode_sparse(payload: bytes, count: int, ratio: float) -> list[float]:
    assert len(payload) >= 4
    (sent,) = struct.unpack("<i", payload[:4])
    assert 0 <= sent <= math.ceil(count * ratio)
    assert len(payload) == 4 + 8 * sent
    values, last = [0.0] * count, -1
    for i in range(sent):
        (index,) = struct.unpack_from("<i", payload, 4 + 4 * i)
        assert last < index < count
        (values[index],) = struct.unpack_from("<f", payload, 4 + 4 * sent + 4 * i)
        last = index
    return values


def decode_payload(codec: int, payload: bytes, count: int, options: Mapping[str, float]) -> list[float]:
    """The values of one payload; AssertionError where the document says that a receiver refuses it."""
    agreed = {**DEFAULTS.get(codec, {}), **options}
    if count == 0:
        assert payload == b""
        return []
    if payload == b"":
        return [math.nan] * count  # the sender's values were not finite
    if codec == NONE:
        return decode_elements(payload, 0, count)
    if codec == FP16:
        return decode_elements(payload, 2, count)
    if codec == ONEBIT:
        return decode_onebit(payload, count, int(agreed["block"]))
    if codec == TBQ:
        return decode_tbq(payload, count, agreed["threshold"])
    if codec == TERNGRAD:
        return decode_terngrad(payload, count, int(agreed["bitwidth"]), int(agreed["block"]))
    if codec in (DGC, GRADDROP, TOPK, THRESHOLD, RANDOMK):
        return decode_sparse(payload, count, agreed["ratio"])
    if codec == BF16:
        return decode_elements(payload, 3, count)
    if codec in (INT8, INT4, QSGD):
        return decode_block_scaled(payload, count, 4 if codec == INT4 else 8, int(agreed["block"]))
    if codec == INT8_SHARED:
        return decode_int8_shared(payload, count, int(agreed["levels"]), int(agreed["block"]))
    if codec == THC:
        return decode_thc(payload, count, int(agreed["levels"]))
    if codec in SMALL_FLOATS:
        return decode_small_floats(payload, count, *SMALL_FLOATS[codec], int(agreed["block"]))
    if codec == U8BIT:
        return decode_u8bit(payload, count, int(agreed["block"]))
    if codec == DYNAMIQ:
        return decode_dynamiq(payload, count, int(agreed["block"]))
    if codec == EFSIGNSGD:
        return decode_efsignsgd(payload, count, int(agreed["block"]))
    if codec == NATURAL:
        return decode_natural(payload, count)
    raise ValueError(f"codec {codec} is not in the document")


def decode_bundle(bundle: bytes) -> list[tuple[tuple[int, int, int, int], bytes, bytes]]:
    """(tag, header, payload) of each message; AssertionError where the document says that a receiver refuses it."""
    magic, version, flags, count, size = struct.unpack("<2sBBIQ", bundle[:16])
    assert magic == b"HB"
    assert version == 1
    assert flags == 0
    assert bundle[16:32] == bytes(16)
    assert len(bundle) - 32 == size <= 16 << 20
    assert count >= 1
    messages, offset = [], 32
    for _ in range(count):
        assert offset + 48 <= len(bundle)
        tensor, step, partition, hop, length = struct.unpack_from("<IIHHI", bundle, offset)
        assert bundle[offset : offset + 12] != b"\xff" * 12
        assert offset + 48 + length <= len(bundle)
        header, payload = bundle[offset + 16 : offset + 48], bundle[offset + 48 : offset + 48 + length]
        messages.append(((tensor, step, partition, hop), header, payload))
        offset += 48 + length
    assert offset == len(bundle)
    return messages


def decode_message(message: bytes, **options: float) -> Message:
    """The header and the payload of a message; `options` are the options on which the ranks agreed."""
    magic, version, flags, codec, count, size, checksum, dtype = struct.unpack("<2sBBIQQIB", message[:29])
    payload = message[32:]
    assert magic == b"HP"
    assert version == 1
    assert flags & ~(RAW | ABSENT | CHECKSUM | PACKED) == 0
    assert not (flags & RAW and flags & ABSENT)
    assert message[29] == 0  # ranks compare the number of updates, which follows
    assert len(payload) == size
    assert checksum == (crc32c(payload) if flags & CHECKSUM else 0)
    values: list[float] | None
    if flags & ABSENT:
        assert size == 0
        values = None
    elif flags & PACKED:
        assert flags & RAW
        assert dtype == INT8_ELEMENT
        values = [float(code - 16 * (code >> 3)) for code in unpacked(payload, 4, count)]
    elif flags & RAW:
        values = decode_elements(payload, dtype, count)
    else:
        values = decode_payload(codec, payload, count, options)
    return Message(version, flags, codec, count, checksum, dtype, values)
