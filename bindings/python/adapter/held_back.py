# SPDX-License-Identifier: Apache-2.0
"""Residuals of a codec with error feedback that was replaced by one without: they join the tensor's next values."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import numpy as np
from numpy.typing import NDArray

#: Values of a tensor, flat, in memory order.
Values = NDArray[np.float32]


class HeldBack:
    """Values of tensors, by index, that join the tensor's next values, so that no dropped value is lost."""

    def __init__(self) -> None:
        self._waiting: dict[int, Values] = {}
        self._sent: dict[Hashable, tuple[int, Values, Callable[[], bool]]] = {}  # by operation

    def keep(self, index: int, values: Values) -> None:
        """`values` wait for the tensor at `index`, added to the values that wait already."""
        earlier = self._waiting.get(index)
        self._waiting[index] = values if earlier is None else earlier + values

    def waiting_for(self, index: int) -> Values | None:
        """Values to add to the next values of the tensor at `index`; nearly always None."""
        return self._waiting.get(index)

    def replace(self, values: dict[int, Values]) -> None:
        """From now on these values wait, by index, and no others."""
        self._waiting = values

    def sent_with(self, operation: Hashable, index: int, is_finite: Callable[[], bool]) -> None:
        """`operation` carries the values of the tensor at `index`; `is_finite()` looks at its result."""
        self._sent[operation] = (index, self._waiting.pop(index), is_finite)

    def arrived(self, operation: Hashable) -> None:
        """`operation` has ended well. A result that is not finite updates no parameter: then the values wait again."""
        if operation in self._sent:
            index, values, is_finite = self._sent.pop(operation)
            if not is_finite():
                self.keep(index, values)
