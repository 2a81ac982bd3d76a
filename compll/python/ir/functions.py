# SPDX-License-Identifier: Apache-2.0
"""The scalar functions of the language: their numbers of arguments, the types of their results, and their meanings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from hipress.compll.ir.exponentials import exponent, exponential, logarithm, power_of_two


def _in_double(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The function, computed in double and rounded once."""

    def rounded(x: Any) -> Any:
        return function(np.asarray(x, np.float64)).astype(np.asarray(x).dtype)

    return rounded


def _series(squares: Any, first: int) -> Any:
    """1 − z/(a(a+1)) (1 − z/((a+2)(a+3)) (1 − …)) for z = `squares` and a = `first`: 9 brackets."""
    total = np.ones_like(squares)
    for divisor in reversed(range(first, first + 18, 2)):
        total = 1.0 - squares / (divisor * (divisor + 1.0)) * total
    return total


def _cospi(x: Any) -> Any:
    """cos(π x) in double, from sums, products and quotients in a fixed order, so that every device gives the same bits.

    Up to the series all operations are exact: x becomes at most a half, then at most a quarter for one of two series.
    """
    turn = np.abs(x)
    turn = turn - 2.0 * np.floor(turn / 2.0)
    turn = np.where(turn > 1.0, 2.0 - turn, turn)
    rest = np.where(turn > 0.5, 1.0 - turn, turn)
    near, far = np.pi * rest, np.pi * (0.5 - rest)
    cosine, sine = _series(near * near, 1), far * _series(far * far, 2)
    value = np.where(rest > 0.25, sine, cosine)
    return np.where(turn > 0.5, -value, value)


def _sign(x: Any) -> Any:
    x = np.asarray(x)
    return (x > 0).astype(x.dtype) - (x < 0).astype(x.dtype)


def _blocks(size: Any, block: Any) -> Any:
    a, b = np.asarray(size, np.int64), np.asarray(block, np.int64)
    return np.where((a > 0) & (b > 0), -(-a // np.where(b > 0, b, 1)), 0).astype(np.int32)


@dataclass(frozen=True)
class ScalarFunction:
    """The arguments and the result of a function.

    `domain`: "float" converts int arguments to float, "any" also computes in int, "int" takes integers only.
    `result`: the type of the result; None means that of the arguments.
    """

    arity: int
    domain: Literal["any", "int", "float"]
    meaning: Callable[..., Any]
    result: Literal["bool", "int", "float"] | None = None


FUNCTIONS = {
    "abs": ScalarFunction(1, "any", np.abs),
    "sign": ScalarFunction(1, "any", _sign),  # -1, 0 or 1; 0 for NaN
    # Unlike IEEE 754: a comparison and a choice, as in SSE and C. A NaN in `b` is dropped, a NaN in `a` stays.
    "min": ScalarFunction(2, "any", lambda a, b: np.where(b < a, b, a)),
    "max": ScalarFunction(2, "any", lambda a, b: np.where(b > a, b, a)),
    "sqrt": ScalarFunction(1, "float", np.sqrt),
    "floor": ScalarFunction(1, "float", np.floor),
    "ceil": ScalarFunction(1, "float", np.ceil),
    "round": ScalarFunction(1, "float", np.rint),  # half to even
    "exp": ScalarFunction(1, "float", _in_double(exponential)),
    "log": ScalarFunction(1, "float", _in_double(logarithm)),
    "cospi": ScalarFunction(1, "float", _in_double(_cospi)),
    "exponent": ScalarFunction(1, "float", exponent, "int"),
    "pow2": ScalarFunction(1, "int", power_of_two, "float"),
    "blocks": ScalarFunction(2, "int", _blocks),  # ⌈size / block⌉, as reduce_blocks counts
    "isfinite": ScalarFunction(1, "float", np.isfinite, "bool"),
}
