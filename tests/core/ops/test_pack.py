# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ctypes

import numpy as np
from numpy.typing import NDArray

from hipress.compll.reference.message import pack, pack_trits, packed_bytes
from tests.cases import each
from tests.core.ops.arrays import SIZES, guarded, pointer, size

WIDTHS = [1, 2, 4, 8]
#: Stands for digits 0, 1 and 2, five in a byte.
TRITS = 243


def codes_of(count: int, width: int) -> NDArray[np.uint8]:
    return np.random.default_rng(count).integers(0, 1 << width, count, dtype=np.uint8)


@each("width", WIDTHS)
@each("count", SIZES)
def test_a_vector_at_once(ops: ctypes.CDLL, count: int, width: int) -> None:
    codes = guarded(codes_of(count, width))
    field = guarded(np.full(packed_bytes(count, width), 0xFF, np.uint8))
    ops.pack_tile(pointer(codes), size(count), width, pointer(field), size(0))
    assert field.tobytes() == pack(codes, width)
    back = guarded(np.full(count, -1, np.int32))
    ops.unpack_tile(pointer(field), size(0), size(count), width, pointer(back))
    assert np.array_equal(back, codes)


@each("width", WIDTHS)
@each("step", [1, 3, 5, 64, 67, 1000])
def test_tiles_that_begin_within_a_byte(ops: ctypes.CDLL, step: int, width: int) -> None:
    count = 2001
    codes = codes_of(count, width)
    field = np.full(packed_bytes(count, width) + 1, 0xFF, np.uint8)
    back = np.full(count, -1, np.int32)
    for first in range(0, count, step):
        part = guarded(codes[first : first + step])
        ops.pack_tile(pointer(part), size(len(part)), width, pointer(field), size(first))
    assert field[:-1].tobytes() == pack(codes, width)
    assert field[-1] == 0xFF
    for first in range(0, count, step):
        here = min(step, count - first)
        part = guarded(np.full(here, -1, np.int32))
        ops.unpack_tile(pointer(field), size(first), size(here), width, pointer(part))
        back[first : first + step] = part
    assert np.array_equal(back, codes)


@each("width", WIDTHS)
@each("count", [0, 1, 2, 3, 4, 5, 7, 8, 9, 1001])
def test_bits_behind_the_last_element_are_seen(library: ctypes.CDLL, count: int, width: int) -> None:
    library.padding_is_zero.restype = ctypes.c_bool
    used = count * width % 8
    field = guarded(np.frombuffer(pack(np.full(count, (1 << width) - 1, np.uint8), width), np.uint8))
    assert library.padding_is_zero(pointer(field), size(count), width)
    for bit in range(used, 8) if used else ():
        field[-1] |= 1 << bit
        assert not library.padding_is_zero(pointer(field), size(count), width)
        field[-1] &= ~np.uint8(1 << bit)


@each("step", [1, 3, 5, 64, 67, 1000, 4000])
def test_trits(ops: ctypes.CDLL, step: int) -> None:
    count = 2001
    digits = np.random.default_rng(step).integers(0, 3, count, dtype=np.uint8)
    field = np.full(count // 5 + 2, 0xFF, np.uint8)
    back = np.full(count, -1, np.int32)
    for first in range(0, count, step):
        part = guarded(digits[first : first + step])
        ops.pack_tile(pointer(part), size(len(part)), TRITS, pointer(field), size(first))
    assert field[:-1].tobytes() == pack_trits(digits)
    assert field[-1] == 0xFF
    packed = guarded(field[:-1])
    for first in range(0, count, step):
        part = guarded(np.full(min(step, count - first), -1, np.int32))
        ops.unpack_tile(pointer(packed), size(first), size(len(part)), TRITS, pointer(part))
        back[first : first + step] = part
    assert np.array_equal(back, digits)
