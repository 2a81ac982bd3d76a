# SPDX-License-Identifier: Apache-2.0
"""Synchronises the gradients of a fixed list of variables again and again, from eager code and from graphs."""

from __future__ import annotations

import itertools
import weakref
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from hipress.errors import InvalidArgument
from hipress.synchronizer import SynchronizationOptions, TensorDescription, TensorList
from hipress.tensorflow import operators

_numbers = itertools.count(1)


def names_of(variables: Iterable[Any]) -> list[str]:
    """A name for each variable, of its own: Keras' path, or TensorFlow's name without the ":0"."""
    names = []
    seen: Counter[str] = Counter()
    for variable in variables:
        name = str(getattr(variable, "path", None) or getattr(variable, "name", None) or "tensor").removesuffix(":0")
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name}_{seen[name] - 1}")
    return names


def _described(name: str, variable: Any) -> TensorDescription:
    dtype = tf.as_dtype(variable.dtype)
    shape = tf.TensorShape(variable.shape)
    operators.check_dtype(dtype, name)
    if not shape.is_fully_defined():
        raise InvalidArgument(f"variable '{name}' has the shape {shape}, of which a part is unknown")
    return TensorDescription(name, dtype.name, shape.num_elements(), str(shape.as_list()))


class GradientSynchronizer(TensorList):
    """A TensorList of variables, whose shapes and dtypes are their gradients'."""

    def __init__(self, variables: Sequence[Any], options: SynchronizationOptions | None = None) -> None:
        super().__init__([_described(n, v) for n, v in zip(names_of(variables), variables, strict=True)], options)
        self._number = next(_numbers)
        self._present: set[int] = set()
        self._define()
        weakref.finalize(self, operators.forget_list, self._number).atexit = False

    def synchronize(self, gradients: Mapping[int, tf.Tensor]) -> dict[int, tf.Tensor]:
        """The gradients of some variables, by index, combined over all ranks.

        In a graph each begins as soon as it is computed. Eager code waits; all are on their way together.
        """
        if not gradients:
            return {}
        count = len(gradients)
        if tf.executing_eagerly():
            indices = list(gradients)
            combined = operators.synchronize(list(gradients.values()), self._number, indices, step_count=count)
            return dict(zip(indices, combined, strict=True))
        return {
            index: operators.synchronize([gradient], self._number, [index], step_count=count)[0]
            for index, gradient in gradients.items()
        }

    def use(self, present: Iterable[int]) -> None:
        """These have gradients, in every step of whatever is traced now. Raises InvalidArgument, see check_groups()."""
        self._present.update(present)
        self.check_groups(self._present)

    def all_present(self) -> bool:
        """Whether all variables have gradients, in what was traced so far."""
        return len(self._present) == len(self)

    def _send_by(self, options: SynchronizationOptions) -> None:
        """As TensorList's; graphs that were traced before travel in the new way, too."""
        super()._send_by(options)
        self._define()
        for index in range(len(self)):
            values = self.held_back(index)
            if values is not None:
                # From here on the operator keeps them: it runs where no Python does.
                operators.hold_back(self._number, index, values)
                self.sent_with(self._number, index, is_finite=lambda: True)
                self.arrived(self._number)

    def _define(self) -> None:
        operators.define_list(self._number, [self.handle(index) for index in range(len(self))])
