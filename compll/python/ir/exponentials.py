# SPDX-License-Identifier: Apache-2.0
"""exp, log, and powers of two, from sums, products and quotients in a fixed order, so that every device gives the same
bits. core/ops/exponentials.h has the same operations in the same order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_TWO_52 = 2.0**52
_LN2_HIGH, _LN2_LOW = float.fromhex("0x1.62e42feep-1"), float.fromhex("0x1.a39ef35793c76p-33")
_LOG2_E = float.fromhex("0x1.71547652b82fep+0")
_SQRT_2 = float.fromhex("0x1.6a09e667f3bcdp+0")


def _power_of_two(k: Any) -> Any:
    """2^k in double, for whole k from -1022 to 1023."""
    return ((k + (_TWO_52 + 1023.0)).view(np.uint64) << np.uint64(52)).view(np.float64)


def exponential(x: Any) -> Any:
    """e^x in double: x is k ln 2 and a rest, for which the Taylor series is summed."""
    x = np.asarray(x, np.float64)
    below = np.where(x > 710.0, 710.0, x)
    bounded = np.where(below < -746.0, -746.0, below)
    k = np.rint(bounded * _LOG2_E)
    rest = (bounded - k * _LN2_HIGH) - k * _LN2_LOW
    series = np.ones_like(x)
    for n in range(14, 0, -1):
        series = 1.0 + rest * (1.0 / n) * series
    half = np.floor(0.5 * k)
    value = series * _power_of_two(half) * _power_of_two(k - half)
    return np.where(x == x, value, x)


def logarithm(x: Any) -> Any:
    """ln x in double: x is m 2^k with m from √½ to √2, and ln m is 2 artanh((m - 1) / (m + 1))."""
    x = np.asarray(x, np.float64)
    tiny = x < 2.0**-1022
    bits = (x * np.where(tiny, 2.0**54, 1.0)).view(np.uint64)
    whole = (bits >> np.uint64(52) | np.uint64(0x4330000000000000)).view(np.float64) - (_TWO_52 + 1023.0)
    part = (bits & np.uint64(0x000FFFFFFFFFFFFF) | np.uint64(0x3FF0000000000000)).view(np.float64)
    large = part > _SQRT_2
    m = np.where(large, 0.5 * part, part)
    k = np.where(large, whole + 1.0, whole) - np.where(tiny, 54.0, 0.0)
    quotient = (m - 1.0) / (m + 1.0)
    square = quotient * quotient
    series = np.zeros_like(x)
    for n in range(23, 1, -2):
        series = square * (1.0 / n + series)
    value = k * _LN2_HIGH + (2.0 * quotient + (2.0 * quotient * series + k * _LN2_LOW))
    known = np.where(x == 0.0, -np.inf, np.where(x == np.inf, x, value))
    return np.where(x >= 0.0, known, np.nan)


def exponent(x: Any) -> Any:
    """The k with 2^k <= |x| < 2^(k + 1). 0 has the k below that of the least number; infinities and NaN have the k
    above that of the greatest."""
    magnitude = np.abs(np.asarray(x))
    limits = np.finfo(magnitude.dtype)
    tiny = magnitude < limits.smallest_normal
    factor = np.where(tiny, 2.0**limits.nmant, 1.0).astype(magnitude.dtype)
    bits = (magnitude * factor).view(f"u{limits.bits // 8}")
    bias = 1 - int(limits.minexp)
    place = (bits >> bits.dtype.type(limits.nmant)).astype(np.int32)
    return place - np.where(tiny, bias + limits.nmant, bias).astype(np.int32)


def power_of_two(k: Any) -> Any:
    """2^k in float."""
    bounded = np.clip(np.asarray(k, np.int64), -150, 128)
    return np.ldexp(1.0, bounded).astype(np.float32)
