# SPDX-License-Identifier: Apache-2.0
"""The meanings of operators on vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from hipress.compll import ir
from hipress.compll.reference.evaluate import Environment
from hipress.errors import CorruptPayload, InvalidArgument

#: (the operator's node, values of names): the vector or scalar that it gives, or a tuple of several.
Meaning = Callable[[Any, Environment], Any]

#: The meanings by the operators' nodes; operators/table.py fills it.
MEANINGS: dict[type[ir.Operator], Meaning] = {}


def require_indices(indices: NDArray[Any], size: int, operator: str, environment: Environment) -> None:
    """Stops unless each index is in a vector of `size` elements."""
    wrong = np.flatnonzero((indices < 0) | (indices >= size))
    if len(wrong):
        refuse(f"{operator}: index {indices[wrong[0]]} in a vector of {size} elements", environment)


def refuse(message: str, environment: Environment) -> NoReturn:
    """In decode the wrong values came from the message; in encode the program computed them."""
    if environment.decoding:
        raise CorruptPayload(message)
    raise InvalidArgument(f"the codec's encode is wrong: {message}")
