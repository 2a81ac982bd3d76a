# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.cases import each
from tests.core.ops.arrays import LONG_SIZES, floats, guarded, ints, pointer, size

KEYS: dict[str, Any] = {"int": np.uint32, "float": np.uint32, "double": np.uint64}
DTYPES: dict[str, Any] = {"int": np.int32, "float": np.float32, "double": np.float64}


def spread_out(kind: str, count: int) -> NDArray[Any]:
    return ints(count) if kind == "int" else floats(count, DTYPES[kind])


def with_ties(kind: str, count: int) -> NDArray[Any]:
    return np.random.default_rng(count).integers(-3, 4, count).astype(DTYPES[kind])


def all_equal(kind: str, count: int) -> NDArray[Any]:
    return np.full(count, 7, DTYPES[kind])


def close_together(kind: str, count: int) -> NDArray[Any]:
    """Keys that differ in their lowest bits only."""
    low = np.random.default_rng(count).integers(0, 40, count)
    if kind == "int":
        return low.astype(np.int32)
    one = np.ones(count, DTYPES[kind]).view(f"i{DTYPES[kind]().itemsize}")
    return (one + low).astype(one.dtype).view(DTYPES[kind])


CASES = [spread_out, with_ties, all_equal, close_together]


def keys_of(library: ctypes.CDLL, kind: str, values: NDArray[Any]) -> NDArray[Any]:
    keys = guarded(np.empty(len(values), KEYS[kind]))
    getattr(library, f"{kind}_keys")(pointer(values), pointer(keys), size(len(values)))
    return keys


@each("make", CASES)
@each("kind", KEYS)
@each("count", LONG_SIZES)
def test_the_order_is_numpys_stable_one(library: ctypes.CDLL, count: int, kind: str, make: Any) -> None:
    values = make(kind, count)
    keys, wanted = keys_of(library, kind, values), np.argsort(values, kind="stable")
    positions = guarded(np.empty(count, np.uint32))
    getattr(library, f"{kind}_stable_order")(pointer(keys), size(count), pointer(positions))
    assert np.array_equal(positions, wanted)
    rank = getattr(library, f"{kind}_position_of_rank")
    rank.restype = ctypes.c_size_t
    for at in {0, 1, count // 100, count // 2, count - 1} & set(range(count)):
        assert rank(pointer(keys), size(count), size(at)) == wanted[at]
    for k in {0, 1, count // 100, count // 2, max(count - 1, 0), count} & set(range(count + 1)):
        first = guarded(np.empty(k, np.uint32))
        getattr(library, f"{kind}_smallest")(pointer(keys), size(count), size(k), pointer(first))
        assert np.array_equal(first, wanted[:k])
        getattr(library, f"{kind}_smallest_set")(pointer(keys), size(count), size(k), pointer(first))
        assert np.array_equal(first, np.sort(wanted[:k]))
