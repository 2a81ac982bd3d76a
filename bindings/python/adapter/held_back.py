# SPDX-License-Identifier: Apache-2.0
"""Unsent residuals: a codec without error feedback has replaced one with it, and the residual waits to be added to the
tensor's next values.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

import numpy as np
from numpy.typing import NDArray

#: Values of a tensor, flat, in memory order.
Values = NDArray[np.float32]


class HeldBack:
    """The unsent residuals of tensors, by index. Each is added to its tensor's next values, so no value is lost."""

    def __init__(self) -> None:
        self._waiting: dict[int, Values] = {}
        self._sent: dict[Hashable, tuple[int, Values, Callable[[], bool]]] = {}  # by operation

    def keep(self, index: int, values: Values) -> None:
        """Adds `values` to the unsent residual of the tensor at `index`."""
        earlier = self._waiting.get(index)
        self._waiting[index] = values if earlier is None else earlier + values

    def waiting_for(self, index: int) -> Values | None:
        """The unsent residual of the tensor at `index`; usually None."""
        return self._waiting.get(index)

    def replace(self, values: dict[int, Values]) -> None:
        """Replaces all unsent residuals by `values`, by index."""
        self._waiting = values

    def multiply(self, factor: float) -> None:
        """Multiplies all unsent residuals: the unit of the gradients has changed."""
        self._waiting = {index: values * np.float32(factor) for index, values in self._waiting.items()}

    def sent_with(self, operation: Hashable, index: int, is_finite: Callable[[], bool]) -> None:
        """Notes that `operation` carries the unsent residual of a tensor. `is_finite()` checks its result."""
        self._sent[operation] = (index, self._waiting.pop(index), is_finite)

    def arrived(self, operation: Hashable) -> None:
        """Notes that `operation` has succeeded. If its result is not finite, no parameter changes: the values wait
        again."""
        if operation in self._sent:
            index, values, is_finite = self._sent.pop(operation)
            if not is_finite():
                self.keep(index, values)
