# SPDX-License-Identifier: Apache-2.0
"""A sample gives a limit for the smallest of many keys, and a scan finds the keys up to the limit."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from tests.cases import each
from tests.core.ops.arrays import SIZES, guarded, pointer, size

TYPES: dict[str, Any] = {"uint32": np.uint32, "uint64": np.uint64}
C_TYPES: dict[str, Any] = {"uint32": ctypes.c_uint32, "uint64": ctypes.c_uint64}


@each("kind", TYPES)
@each("share", [0.0, 0.01, 0.5, 1.0])
@each("count", SIZES)
@each("many", [False, True])
def test_keys_up_to_a_limit(ops: ctypes.CDLL, many: bool, count: int, share: float, kind: str) -> None:
    function, bits = getattr(ops, f"{kind}_up_to"), 8 * TYPES[kind]().itemsize
    function.restype = ctypes.c_size_t
    keys = guarded(np.random.default_rng(count).integers(1, 2**bits, count, TYPES[kind]))
    limit = min(int(share * 2**bits), 2**bits - 1)
    keys[::7] = limit  # a key that equals the limit must be kept
    positions, kept = guarded(np.empty(count + 16, np.int32)), guarded(np.empty(count + 16, TYPES[kind]))
    found = function(pointer(keys), size(count), C_TYPES[kind](limit), 5000, pointer(positions), pointer(kept), many)
    wanted = np.flatnonzero(keys <= limit)
    assert np.array_equal(positions[:found], wanted + 5000)
    assert np.array_equal(kept[:found], keys[wanted])


def limit_of(library: ctypes.CDLL, keys: Any, first: int) -> int:
    kind = keys.dtype.name
    function = getattr(library, f"{kind}_likely_limit")
    function.restype = C_TYPES[kind]
    limit: int = function(pointer(keys), size(len(keys)), size(first))
    return limit


@each("kind", TYPES)
@each(
    ("count", "first"),
    [
        *((2048, 21), (5000, 1), (16_384, 164), (65_535, 66), (65_535, 8191), (65_536, 1), (65_537, 8192)),
        *((300_001, 301), (1_000_000, 10_000), (1_000_003, 125_000)),
    ],
)
def test_a_likely_limit_lets_enough_keys_through_and_few_more(
    library: ctypes.CDLL, count: int, first: int, kind: str
) -> None:
    keys = np.random.default_rng(first).integers(0, 2**31, count, TYPES[kind])
    candidates = int((keys <= limit_of(library, keys, first)).sum())
    # So many of the smallest keys are in the sample. The limit's rank in the sample is four standard deviations higher.
    sampled = first * min(count / (16 if count < 65_536 else 64), max(16384, 64 * count / first)) / count
    assert first <= candidates <= first * (1 + 8 / sampled**0.5 + 12 / sampled)


@pytest.mark.parametrize("kind", TYPES)
def test_where_a_sample_does_not_pay_there_is_no_limit(library: ctypes.CDLL, kind: str) -> None:
    keys, none = np.arange(100_000, dtype=TYPES[kind]), 2 ** (8 * TYPES[kind]().itemsize) - 1
    assert limit_of(library, keys[:2047], 10) == none
    assert limit_of(library, keys, 50_001) == none
    assert limit_of(library, keys, 49_000) < none
    assert limit_of(library, keys, 0) == 0
