# SPDX-License-Identifier: Apache-2.0
"""The scalar functions of the language: how many arguments they take, what type they give, and their meaning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np


def _in_double(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """exp and log are taken in double and rounded once, so that every device can give the same float."""

    def rounded(x: Any) -> Any:
        return function(np.asarray(x, np.float64)).astype(np.asarray(x).dtype)

    return rounded


def _sign(x: Any) -> Any:
    x = np.asarray(x)
    return (x > 0).astype(x.dtype) - (x < 0).astype(x.dtype)


def _blocks(size: Any, block: Any) -> Any:
    a, b = np.asarray(size, np.int64), np.asarray(block, np.int64)
    return np.where((a > 0) & (b > 0), -(-a // np.where(b > 0, b, 1)), 0).astype(np.int32)


@dataclass(frozen=True)
class ScalarFunction:
    """What a function takes and gives.

    `domain`: "float" makes an int argument a float, "any" works in int, too, "int" only there.
    `result` None: it has the type of the arguments.
    """

    arity: int
    domain: Literal["any", "int", "float"]
    meaning: Callable[..., Any]
    result: Literal["bool"] | None = None


FUNCTIONS = {
    "abs": ScalarFunction(1, "any", np.abs),
    "sign": ScalarFunction(1, "any", _sign),  # -1, 0 or 1; 0 for NaN
    # Not IEEE's: a comparison and a choice, what SSE and a C conditional do. A NaN in `b` loses, one in `a` stays.
    "min": ScalarFunction(2, "any", lambda a, b: np.where(b < a, b, a)),
    "max": ScalarFunction(2, "any", lambda a, b: np.where(b > a, b, a)),
    "sqrt": ScalarFunction(1, "float", np.sqrt),
    "floor": ScalarFunction(1, "float", np.floor),
    "ceil": ScalarFunction(1, "float", np.ceil),
    "round": ScalarFunction(1, "float", np.rint),  # half to even
    "exp": ScalarFunction(1, "float", _in_double(np.exp)),
    "log": ScalarFunction(1, "float", _in_double(np.log)),
    "blocks": ScalarFunction(2, "int", _blocks),  # ⌈size / block⌉, as reduce_blocks counts
    "isfinite": ScalarFunction(1, "float", np.isfinite, "bool"),
}

# Operators: what each takes, as messages show it.
OPERATORS = {
    "map": "map(vector, ..., function)",
    "reduce": "reduce(vector, initial, function)",
    "reduce_blocks": "reduce_blocks(vector, initial, function, block)",
    "sum": "sum(vector)",
    "filter": "filter(vector, condition)",
    "sort": "sort(vector, key)",
    "gather": "gather(vector, indices)",
    "scatter": "scatter(base, indices, values)",
    "take": "take(vector, count)",
    "range": "range(count)",
    "fill": "fill(count, value)",
    "spread": "spread(vector, block)",
    "concat": "concat(value, ...)",
}
