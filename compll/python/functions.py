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


@dataclass(frozen=True)
class ScalarFunction:
    """`domain`: "float" makes an int argument a float; "any" works in int, too. `result` None: as the arguments."""

    arity: int
    domain: Literal["any", "float"]
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
