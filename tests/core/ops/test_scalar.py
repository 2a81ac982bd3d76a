# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipress.compll import ir
from hipress.compll.reference.philox import uniform, uniform_int
from tests.cases import each
from tests.core.ops import interpreted
from tests.core.ops.arrays import equal_bits, floats, ints, pointer, size, special_floats, special_ints

KINDS = ["int", "float", "double"]
DTYPES = interpreted.DTYPES


def values_of(kind: str) -> NDArray[Any]:
    if kind == "int":
        return np.concatenate([special_ints(), ints(1000)])
    return np.concatenate([special_floats(DTYPES[kind]), floats(1000, DTYPES[kind])])


def pairs_of(kind: str) -> tuple[NDArray[Any], NDArray[Any]]:
    special = special_ints() if kind == "int" else special_floats(DTYPES[kind])
    values = values_of(kind)
    a = np.concatenate([np.repeat(special, len(special)), values])
    b = np.concatenate([np.tile(special, len(special)), values[::-1]])
    return a, b


def run(ops: ctypes.CDLL, name: str, a: NDArray[Any], b: NDArray[Any], result: Any) -> NDArray[Any]:
    out = np.empty(len(a), result)
    getattr(ops, name)(pointer(a), pointer(b), pointer(out), size(len(a)))
    return out


@each(
    ("name", "operator"),
    [
        ("add", "+"),
        ("subtract", "-"),
        ("multiply", "*"),
        ("divide", "/"),
        ("remainder", "%"),
        ("shift_left", "<<"),
        ("shift_right", ">>"),
    ],
)
def test_integer_operators(ops: ctypes.CDLL, name: str, operator: str) -> None:
    a, b = pairs_of("int")
    assert equal_bits(run(ops, f"int_{name}", a, b, np.int32), interpreted.binary(operator, "int", a, b))


def test_negation_wraps(ops: ctypes.CDLL) -> None:
    a = values_of("int")
    assert equal_bits(run(ops, "int_negate", a, a, np.int32), interpreted.negate(a))


@each("kind", KINDS)
@each("name", ["min", "max"])
def test_min_and_max(ops: ctypes.CDLL, name: str, kind: str) -> None:
    a, b = pairs_of(kind)
    assert equal_bits(run(ops, f"{kind}_{name}", a, b, DTYPES[kind]), interpreted.call(name, kind, a, b))


@each("kind", KINDS)
@each("name", ["abs", "sign"])
def test_abs_and_sign(ops: ctypes.CDLL, name: str, kind: str) -> None:
    a = values_of(kind)
    assert equal_bits(run(ops, f"{kind}_{name}", a, a, DTYPES[kind]), interpreted.call(name, kind, a))


@each("kind", ["float", "double"])
@each("name", ["floor", "ceil", "round", "sqrt"])
def test_functions_of_floats(ops: ctypes.CDLL, name: str, kind: str) -> None:
    a = values_of(kind)
    assert equal_bits(run(ops, f"{kind}_{name}", a, a, DTYPES[kind]), interpreted.call(name, kind, a))


@each("kind", ["float", "double"])
@each("name", ["exp", "log"])
def test_exp_and_log_to_the_last_bit_but_one(ops: ctypes.CDLL, name: str, kind: str) -> None:
    a = values_of(kind)
    got, wanted = run(ops, f"{kind}_{name}", a, a, DTYPES[kind]), interpreted.call(name, kind, a)
    np.testing.assert_allclose(got, wanted, rtol=np.finfo(DTYPES[kind]).eps * 1.01, atol=0)


@each("kind", ["float", "double"])
def test_isfinite(ops: ctypes.CDLL, kind: str) -> None:
    a = values_of(kind)
    assert np.array_equal(run(ops, f"{kind}_isfinite", a, a, np.int32) != 0, interpreted.call("isfinite", kind, a))


@each("to", ["int", "float", "double"])
@each("kind", KINDS)
def test_conversions_saturate(ops: ctypes.CDLL, kind: str, to: str) -> None:
    a = values_of(kind)
    wanted = interpreted.cast(interpreted.TYPES[to], kind, a)
    assert equal_bits(run(ops, f"{kind}_to_{to}", a, a, DTYPES[to]), wanted)


@each("bits", [1, 2, 4, 8])
@each("kind", KINDS)
def test_conversions_to_few_bits(ops: ctypes.CDLL, kind: str, bits: int) -> None:
    a = values_of(kind)
    got = run(ops, f"{kind}_to_uint", a, np.full(len(a), bits, np.int32), np.int32)
    assert np.array_equal(got, interpreted.cast(ir.Scalar("uint", bits), kind, a))


@each("kind", KINDS)
def test_conversions_to_bool(ops: ctypes.CDLL, kind: str) -> None:
    a = values_of(kind)
    assert np.array_equal(run(ops, f"{kind}_to_bool", a, a, np.int32), interpreted.cast(ir.BOOL, kind, a))


def test_blocks(ops: ctypes.CDLL) -> None:
    a, b = pairs_of("int")
    assert equal_bits(run(ops, "int_blocks", a, b, np.int32), interpreted.call("blocks", "int", a, b))


@each(("low", "high"), [(0.0, 1.0), (-0.3, 0.7), (1e30, -1e30), (5.0, 5.0)])
def test_uniform_floats(library: ctypes.CDLL, low: float, high: float) -> None:
    words = np.concatenate([[0, 255, 256, 2**32 - 1, 2**31], ints(1000)]).astype(np.uint32)
    got = np.empty(len(words), np.float32)
    library.uniform_float(pointer(words), ctypes.c_float(low), ctypes.c_float(high), pointer(got), size(len(words)))
    assert equal_bits(got, uniform(words, low, high))


@each(("low", "high"), [(0.0, 1.0), (-0.5, 0.5), (-31.5, -30.5), (1e-9, 1.0), (99.5, 100.5), (3.0, 1e30)])
def test_uniform_floats_from_16_bits(library: ctypes.CDLL, low: float, high: float) -> None:
    halves = np.arange(1 << 16, dtype=np.uint16)
    got = np.empty(len(halves), np.float32)
    library.uniform_half(pointer(halves), ctypes.c_float(low), ctypes.c_float(high), pointer(got), size(len(halves)))
    assert equal_bits(got, uniform((halves.astype(np.uint32) << 16) | 0x8000, low, high))


@each("bits", [4, 8])
def test_nearest_signed_integers(library: ctypes.CDLL, bits: int) -> None:
    """The values are numbers of all magnitudes, infinities and NaN, and all small halves and their neighbours."""
    halves = np.arange(-600, 600, dtype=np.float32) / 2
    near = [np.nextafter(halves, np.float32(to)) for to in (-np.inf, np.inf)]
    powers = 2.0 ** np.arange(0, 128)
    further = [powers, -powers, powers - 1, 1 - powers, powers + 0.5, -powers - 0.5, [np.nan, -np.nan]]
    values = np.concatenate([values_of("float"), halves, *near, *further]).astype(np.float32)
    got = np.empty(len(values), np.int32)
    library.nearest_signed(pointer(values), bits, pointer(got), size(len(values)))
    assert np.array_equal(got, interpreted.cast(ir.Scalar("int", bits), "float", np.rint(values)))


@each(("low", "high"), [(0, 10), (-5, 5), (-(2**31), 2**31 - 1), (3, 3), (4, -4), (7, 8)])
def test_uniform_integers(library: ctypes.CDLL, low: int, high: int) -> None:
    words = np.concatenate([[0, 255, 256, 2**32 - 1, 2**31], ints(1000)]).astype(np.uint32)
    got = np.empty(len(words), np.int32)
    library.uniform_int(pointer(words), low, high, pointer(got), size(len(words)))
    assert np.array_equal(got, uniform_int(words, low, high))


def test_floats_are_rounded_to_float16_as_numpy_does(ops: ctypes.CDLL) -> None:
    """All values of float16, the middles between neighbours, and the floats next to these."""
    halves = np.arange(65536, dtype=np.uint16).view(np.float16)
    exact = halves.astype(np.float32)
    finite = np.sort(exact[np.isfinite(exact)])
    middles = np.concatenate([(finite[1:] + finite[:-1]) / 2, np.float32([-65520, 65520])])
    with np.errstate(all="ignore"):
        near = [np.nextafter(at, np.float32(to)) for at in (exact, middles) for to in (-np.inf, np.inf)]
        values = np.concatenate([exact, middles, *near, values_of("float")]).astype(np.float32)
        expected = values.astype(np.float16)
    rounded = run(ops, "to_float16", values, values, np.float32)
    assert equal_bits(rounded, expected.astype(np.float32))
    bits = run(ops, "float16_bits", rounded, rounded, np.int32)
    assert equal_bits(bits.astype(np.uint16).view(np.float16), expected)
    codes = np.arange(65536, dtype=np.int32)
    assert equal_bits(run(ops, "float16_of", codes, codes, np.float32), exact)
