# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.cases import each
from tests.core.ops import interpreted
from tests.core.ops.arrays import LONG_SIZES, equal_bits, floats, guarded, ints, pointer, size

C_TYPES: dict[str, Any] = {"int": ctypes.c_int32, "float": ctypes.c_float, "double": ctypes.c_double}
PAIRS = [("int", "int"), ("float", "int"), ("float", "float"), ("double", "int"), ("double", "float")]
COUNTS = [count for count in LONG_SIZES if count]


def reduced(ops: ctypes.CDLL, combine: str, kind: str, element: str, values: NDArray[Any]) -> NDArray[Any]:
    function = getattr(ops, f"{combine}_{kind}_{element}")
    function.restype = C_TYPES[kind]
    values = guarded(values)
    partials = np.empty(len(values) // 4096 + 1, interpreted.DTYPES[kind])
    return np.asarray(function(pointer(values), size(len(values)), pointer(partials)), interpreted.DTYPES[kind])


def values_of(element: str, count: int, *, ordinary: bool) -> NDArray[Any]:
    if element == "int":
        return ints(count)
    values = floats(count, interpreted.DTYPES[element])
    return np.where(np.isfinite(values), values, 1).astype(values.dtype) if ordinary else values


@each("ordinary", [True, False])
@each(("kind", "element"), [*PAIRS, ("double", "double")])
@each("combine", ["sum", "least", "greatest"])
@each("count", COUNTS)
def test_the_order_is_the_languages(
    ops: ctypes.CDLL, count: int, combine: str, kind: str, element: str, ordinary: bool
) -> None:
    values = values_of(element, count, ordinary=ordinary)
    got = reduced(ops, combine, kind, element, values)
    wanted = interpreted.reduction(combine, kind, 0, values)
    with np.errstate(all="ignore"):
        zero = np.zeros((), got.dtype)
        got = {
            "sum": zero + got,
            "least": np.where(got < zero, got, zero),
            "greatest": np.where(got > zero, got, zero),
        }[combine]
    assert equal_bits(np.asarray(got), np.asarray(wanted))


@each("count", COUNTS)
def test_other_functions_keep_the_order_too(ops: ctypes.CDLL, count: int) -> None:
    values = values_of("float", count, ordinary=True)
    got = reduced(ops, "half", "double", "float", values)
    assert equal_bits(got, np.asarray(interpreted.reduction("half", "double", 0, values)))


def test_a_sum_of_negative_zeros_is_one(ops: ctypes.CDLL) -> None:
    assert np.signbit(reduced(ops, "sum", "double", "float", np.full(5000, -0.0, np.float32)))


@each("kind", ["float", "double"])
@each("combine", ["least", "greatest"])
@each("special", [-0.0, 0.0, np.nan])
@each("at", [0, 5, 16, 4999])
def test_of_equal_elements_the_first_stays(ops: ctypes.CDLL, at: int, special: float, combine: str, kind: str) -> None:
    """Zeros of both signs are equal. A comparison with a NaN is false, so a NaN stays only at the first place."""
    values = np.full(5000, 0.0 if np.signbit(special) else -0.0, np.float32)
    values[at] = special
    got = reduced(ops, combine, kind, "float", values)
    assert equal_bits(got, values[0].astype(got.dtype))
