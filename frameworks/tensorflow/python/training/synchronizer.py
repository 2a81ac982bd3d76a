# SPDX-License-Identifier: Apache-2.0
"""Synchronises the gradients of a fixed list of variables again and again, from eager code and from graphs."""

from __future__ import annotations

import itertools
import weakref
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import tensorflow as tf
from tensorflow.python.ops.resource_variable_ops import BaseResourceVariable

from hipress.adapter.held_back import Values
from hipress.adapter.synchronizer import SynchronizationOptions, TensorDescription, TensorList
from hipress.errors import InvalidArgument
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


def _resource(variable: Any) -> Any:
    """TensorFlow's variable, Keras' own or the one behind it, if it is in the host's memory; or None."""
    value = variable if isinstance(variable, BaseResourceVariable) else getattr(variable, "value", None)
    return value if isinstance(value, BaseResourceVariable) and "GPU" not in (value.device or "") else None


class GradientSynchronizer(TensorList):
    """A TensorList of variables, whose shapes and dtypes are their gradients'."""

    def __init__(self, variables: Sequence[Any], options: SynchronizationOptions | None = None) -> None:
        super().__init__([_described(n, v) for n, v in zip(names_of(variables), variables, strict=True)], options)
        self._number = next(_numbers)
        self._present: set[int] = set()
        self._define()
        self._process.steps.add(self)
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

    def observed(self, variables: Sequence[Any], indices: Iterable[int]) -> AbstractContextManager[Any]:
        """Notes which of the variables have been updated since the last step; gradients that are handed over within
        this tell the other ranks. Variables that are not on the host are not looked at.
        """
        if self._world == 1:
            return nullcontext()
        values = {index: _resource(variables[index]) for index in indices}
        known = {index: value for index, value in values.items() if value is not None}
        if not known:
            return nullcontext()
        operator = operators.observe(list(known.values()), self._number, list(known))
        after: AbstractContextManager[Any] = (
            nullcontext() if tf.executing_eagerly() else tf.control_dependencies([operator])
        )
        return after

    def count_updates(self) -> None:
        """Updates are told by updated(), and not observed."""
        operators.count_updates(self._number)

    def updated(self, variables: Sequence[Any]) -> None:
        """An optimizer has updated the variables of this list; in a graph, will have when this is run."""
        if self._world > 1:
            known = [value for value in map(_resource, variables) if value is not None]
            operators.updated(known, self._number, range(len(self)))

    def unfinished(self) -> str | None:
        """See hipress.adapter.unfinished.Step."""
        return operators.unfinished(self._number)

    def steps_taken(self) -> int:
        """See hipress.adapter.unfinished.Step."""
        return operators.steps(self._number)

    def use(self, present: Iterable[int]) -> None:
        """These have gradients, in every step of whatever is traced now. Raises InvalidArgument, see check_groups()."""
        self._present.update(present)
        self.check_groups(self._present)

    def all_present(self) -> bool:
        """Whether all variables have gradients in the functions that were traced so far."""
        return len(self._present) == len(self)

    def _send_by(self, options: SynchronizationOptions) -> None:
        """As TensorList's; graphs that were traced before travel in the new way, too."""
        super()._send_by(options)
        self._define()
        for index in range(len(self)):
            values = super().held_back(index)
            if values is not None:
                # From here on the operator keeps them: it runs where no Python does.
                operators.hold_back(self._number, index, values)
                self.sent_with(self._number, index, is_finite=lambda: True)
                self.arrived(self._number)

    def as_saved(self) -> Sequence[TensorDescription]:
        """See TensorList. Keras' path begins with the model in one that was made, but not in one that was loaded."""
        seen: Counter[str] = Counter()
        saved = []
        for tensor in self.tensors:
            name = "/".join(tensor.name.split("/")[-2:])
            seen[name] += 1
            saved.append(replace(tensor, name=name if seen[name] == 1 else f"{name}_{seen[name] - 1}"))
        return saved

    def held_back(self, index: int) -> Values | None:
        """See TensorList. The operator keeps them, but for the moment in which they are handed to it."""
        waiting = super().held_back(index)
        return operators.held_back(self._number, index, self.tensors[index].count) if waiting is None else waiting

    def replace_held_back(self, values: Mapping[int, Values]) -> None:
        """See TensorList."""
        for index in range(len(self)):
            operators.forget_held_back(self._number, index)
        for index, each in values.items():
            operators.hold_back(self._number, index, each)

    def _define(self) -> None:
        operators.define_list(self._number, [self.handle(index) for index in range(len(self))])
