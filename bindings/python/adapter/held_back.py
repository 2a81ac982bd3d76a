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
        self._of_step: list[tuple[int, Values]] = []  # arrived; the step's end decides

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

    def arrived(self, operation: Hashable, *, by_steps: bool = False) -> None:
        """Notes that `operation` has succeeded. If its result is not finite, no parameter changes: the values wait
        again. `by_steps`: step_ended() decides, because one result that is not finite leaves the whole step out."""
        if operation not in self._sent:
            return
        index, values, is_finite = self._sent.pop(operation)
        if by_steps:
            self._of_step.append((index, values))
        elif not is_finite():
            self.keep(index, values)

    def step_ended(self, *, counts: bool) -> None:
        """The step has ended. If it does not count, the values that it has sent wait again."""
        for index, values in self._of_step:
            if not counts:
                self.keep(index, values)
        self._of_step.clear()
