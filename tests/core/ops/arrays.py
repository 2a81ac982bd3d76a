# SPDX-License-Identifier: Apache-2.0
"""Arrays for C functions: awkward sizes and values, and memory behind whose end each access faults."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

SIZES = [0, 1, 7, 15, 16, 17, 63, 64, 65, 1023, 1024, 1025]
LONG_SIZES = [*SIZES, 4095, 4096, 4097, 8191, 100_000]
PAGE = mmap.PAGESIZE


def pointer(array: NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def size(value: int) -> ctypes.c_size_t:
    return ctypes.c_size_t(value)


def guarded(values: NDArray[Any]) -> NDArray[Any]:
    """A copy that ends at the end of a page; the next page cannot be read or written."""
    pages = -(-values.nbytes // PAGE) + 1
    memory = mmap.mmap(-1, pages * PAGE)
    whole = np.frombuffer(memory, np.uint8)
    libc = ctypes.CDLL(None, use_errno=True)
    forbidden = ctypes.c_void_p(whole.ctypes.data + (pages - 1) * PAGE)
    assert libc.mprotect(forbidden, ctypes.c_size_t(PAGE), 0) == 0  # PROT_NONE
    end = (pages - 1) * PAGE
    copy: NDArray[Any] = whole[end - values.nbytes : end].view(values.dtype)
    copy[:] = values
    return copy


def equal_bits(left: NDArray[Any], right: NDArray[Any]) -> bool:
    """Whether all bits are equal; a NaN may have other bits."""
    left, right = np.asarray(left), np.asarray(right)
    assert left.dtype == right.dtype
    assert left.shape == right.shape
    if left.dtype.kind != "f":
        return bool(np.array_equal(left, right))
    unsigned = f"u{left.dtype.itemsize}"
    same = left.view(unsigned) == right.view(unsigned)
    return bool(np.all(same | (np.isnan(left) & np.isnan(right))))


def floats(count: int, kind: Any = np.float32, seed: int = 0) -> NDArray[Any]:
    """Floats of all magnitudes, with zeros of both signs, denormals, infinities and NaN."""
    generator = np.random.default_rng(seed)
    values = (generator.standard_normal(count) * 10.0 ** generator.integers(-10, 10, count)).astype(kind)
    special = special_floats(kind)
    places = generator.random(count) < 0.05
    values[places] = generator.choice(special, int(places.sum()))
    return values


def special_floats(kind: Any) -> NDArray[Any]:
    limits = np.finfo(kind)
    whole = [0, 0.5, 1, 1.5, 2.5, 3, 3.5, 15, 16, 127.9, 254.9, 255, 255.5, 256, 2**23, 2**23 + 0.5, 2**31 - 0.5]
    beyond = [2.0**24, 2.0**31 - 128, 2.0**31 - 1, 2.0**31, 2.0**31 + 256, 2.0**32, 2.0**52 + 0.5, 2.0**53, 2.0**63]
    tiny = [float(limits.smallest_subnormal), float(limits.tiny), 0.49999997, 1e-20]
    every = [*whole, *beyond, *tiny, float(limits.max), np.inf, np.nan]
    return np.array([*every, *(-x for x in every)], kind)


def special_ints() -> NDArray[np.int32]:
    near = [0, 1, 2, 3, 4, 7, 15, 16, 31, 32, 33, 255, 256, 1000, 46341, 65536, 2**24 + 1, 2**30, 2**31 - 2, 2**31 - 1]
    return np.array([*near, *(-x for x in near), -(2**31)], np.int32)


def ints(count: int, seed: int = 0) -> NDArray[np.int32]:
    generator = np.random.default_rng(seed)
    values = generator.integers(-(2**31), 2**31, count, dtype=np.int64) >> generator.integers(0, 32, count)
    return values.astype(np.int32)
