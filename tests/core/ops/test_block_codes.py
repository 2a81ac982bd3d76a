# SPDX-License-Identifier: Apache-2.0
"""A block's codes as words of 32 bits: every width and every count of codes, at each instruction-set level."""

from __future__ import annotations

import ctypes

import numpy as np
from numpy.typing import NDArray

from hipress.compll.reference.message import pack
from tests.cases import each
from tests.core.ops.arrays import guarded, pointer, size

#: Up to two groups of 64 codes and a rest, and a whole tile of a block.
COUNTS = [*range(1, 136), 1000, 1024]


def packed(codes: NDArray[np.uint8], width: int) -> bytes:
    """The words of the codes as the interpreter makes them."""
    data = pack(np.minimum(codes, (1 << width) - 1), width) if width else b""
    return data + b"\0" * (-len(data) % 4)


@each("width", range(9))
def test_words_are_the_interpreters(ops: ctypes.CDLL, width: int) -> None:
    for count in COUNTS:
        codes = guarded(np.random.default_rng(count).integers(0, 256, count, dtype=np.uint8) >> count % 8)
        wanted = packed(codes, width)
        words = guarded(np.full(len(wanted) // 4, -1, np.int32))
        ops.pack_tile_of_block(pointer(codes), size(0), size(count), width, pointer(words))
        assert words.tobytes() == wanted, count
        back = guarded(np.full(count, -1, np.int32))
        ops.unpack_tile_of_block(pointer(words), size(0), size(count), width, pointer(back))
        assert np.array_equal(back, np.minimum(codes, (1 << width) - 1)), count


@each("width", range(9))
def test_a_tile_within_a_block_leaves_other_words_as_they_are(ops: ctypes.CDLL, width: int) -> None:
    codes = guarded(np.random.default_rng(width).integers(0, 256, 96, dtype=np.uint8))
    words = np.full((32 + 96 + 32) * width // 32, 0x55AA55AA, np.int32)
    wanted = words.copy()
    wanted[width : 4 * width] = np.frombuffer(packed(codes, width), np.int32)
    ops.pack_tile_of_block(pointer(codes), size(32), size(96), width, pointer(words))
    assert np.array_equal(words, wanted)
    back = guarded(np.full(96, -1, np.int32))
    ops.unpack_tile_of_block(pointer(words), size(32), size(96), width, pointer(back))
    assert np.array_equal(back, np.minimum(codes, (1 << width) - 1))


@each(("width", "used"), [(-1, 0), (9, 8), (2**31 - 1, 8)])
def test_a_width_out_of_range_becomes_the_nearest(ops: ctypes.CDLL, width: int, used: int) -> None:
    codes = guarded(np.arange(100, 228, dtype=np.uint8))
    words = guarded(np.full(4 * used, -1, np.int32))
    ops.pack_tile_of_block(pointer(codes), size(0), size(128), width, pointer(words))
    assert words.tobytes() == packed(codes, used)


@each("width", range(1, 9))
def test_bits_behind_the_last_code_do_not_count(ops: ctypes.CDLL, width: int) -> None:
    words = guarded(np.full(2 * width, -1, np.int32))
    for count in range(1, 65):
        back = guarded(np.full(count, -1, np.int32))
        ops.unpack_tile_of_block(pointer(words), size(0), size(count), width, pointer(back))
        assert np.array_equal(back, np.full(count, (1 << width) - 1)), count
