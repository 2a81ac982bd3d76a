# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ctypes

import numpy as np

from tests.cases import each
from tests.core.ops.arrays import SIZES, guarded, ints, pointer, size


@each("wrong", [np.nan, -np.nan, np.inf, -np.inf])
@each("count", SIZES)
def test_one_value_that_is_not_finite_is_seen(ops: ctypes.CDLL, count: int, wrong: float) -> None:
    ops.all_finite_scaled.restype = ctypes.c_bool
    limits = np.finfo(np.float32)
    ordinary = np.array([limits.max, limits.min, limits.smallest_subnormal, 0.0, -0.0], np.float32)
    values = guarded(np.resize(ordinary, count) if count else ordinary[:0])
    one = ctypes.c_float(1.0)
    assert ops.all_finite_scaled(pointer(values), size(count), one)
    assert ops.all_finite_scaled(pointer(values), size(count), ctypes.c_float(2.0)) == (count == 0)
    for at in {0, count // 2, count - 1} if count else ():
        before, values[at] = values[at], wrong
        assert not ops.all_finite_scaled(pointer(values), size(count), one)
        values[at] = before


@each("limit", [0, 1, 100, 2**31 - 1, 2**31, 2**40])
@each("count", SIZES)
def test_the_first_index_outside(ops: ctypes.CDLL, count: int, limit: int) -> None:
    ops.first_outside.restype = ctypes.c_size_t
    inside = np.abs(ints(count).astype(np.int64)) % max(min(limit, 2**31), 1)
    for wrong in {-1, -(2**31), min(limit, 2**31 - 1)}:
        for at in {0, count // 2, count - 1} if count else ():
            values = inside.copy()
            values[at] = wrong
            found = np.flatnonzero((values < 0) | (values >= limit))
            indices = guarded(values.astype(np.int32))
            wanted = found[0] if len(found) else count
            assert ops.first_outside(pointer(indices), size(count), size(limit)) == wanted
    if limit:
        indices = guarded(inside.astype(np.int32))
        assert ops.first_outside(pointer(indices), size(count), size(limit)) == count


@each("count", SIZES)
def test_the_first_index_that_does_not_increase(ops: ctypes.CDLL, count: int) -> None:
    ops.first_falling.restype = ctypes.c_size_t
    rising = guarded(np.arange(count, dtype=np.int32) * 3 - 1000)
    assert ops.first_falling(pointer(rising), size(count)) == count
    for at in {1, count // 2, count - 1} if count > 1 else ():
        if at == 0:
            continue
        for step in (0, 1):
            indices = guarded(rising)
            indices[at] = indices[at - 1] - step
            assert ops.first_falling(pointer(indices), size(count)) == at - 1


@each("stream", [False, True])
@each("offset", [0, 1, 4, 8, 12, 16, 32, 60])
@each("count", SIZES)
def test_stores_copy_to_any_place(ops: ctypes.CDLL, count: int, offset: int, stream: bool) -> None:
    tile = guarded(ints(count).view(np.float32))
    memory = np.full(4 * count + 256, 0xAB, np.uint8)
    begin = -memory.ctypes.data % 64 + offset
    ops.store_tile(pointer(memory[begin:]), pointer(tile), size(count), stream)
    assert memory[begin : begin + 4 * count].tobytes() == tile.tobytes()
    assert np.all(memory[:begin] == 0xAB)
    assert np.all(memory[begin + 4 * count :] == 0xAB)
