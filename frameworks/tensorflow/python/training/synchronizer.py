# SPDX-License-Identifier: Apache-2.0
"""Synchronises the gradients of a fixed list of variables in every step, from eager code and from graphs."""

from __future__ import annotations

import itertools
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import tensorflow as tf
from tensorflow.python.ops.resource_variable_ops import BaseResourceVariable

from hipress import runtime
from hipress.adapter.held_back import Values
from hipress.adapter.lists.description import TensorDescription
from hipress.adapter.synchronizer import SynchronizationOptions, TensorList
from hipress.errors import InvalidArgument
from hipress.launch.worlds.seat import seat
from hipress.tensorflow import operators, places
from hipress.tensorflow.failures import own_errors

_numbers = itertools.count(1)
#: The lists that begin again when a graph uses them in the next world of an elastic job.
_restarting: weakref.WeakValueDictionary[int, GradientSynchronizer] = weakref.WeakValueDictionary()


def names_of(variables: Iterable[Any]) -> list[str]:
    """A unique name for each variable: Keras' path, or TensorFlow's name without the ":0"."""
    names = []
    seen: Counter[str] = Counter()
    for variable in variables:
        name = str(getattr(variable, "path", None) or getattr(variable, "name", None) or "tensor").removesuffix(":0")
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name}_{seen[name] - 1}")
    return names


def _described(name: str, variable: Any, place: places.Place) -> TensorDescription:
    dtype = tf.as_dtype(variable.dtype)
    shape = tf.TensorShape(variable.shape)
    operators.check_dtype(dtype, name)
    if not shape.is_fully_defined():
        raise InvalidArgument(f"variable '{name}' has the shape {shape}, of which a part is unknown")
    core, parts, text = operators.core_type(dtype)
    return TensorDescription(name, core, shape.num_elements() * parts, str(shape.as_list()) + text, place.engine)


def _resource(variable: Any) -> Any:
    """The TensorFlow variable itself, or the one in a Keras variable; None if there is none."""
    value = variable if isinstance(variable, BaseResourceVariable) else getattr(variable, "value", None)
    return value if isinstance(value, BaseResourceVariable) else None


class GradientSynchronizer(TensorList):
    """A TensorList of variables; their gradients have the same shapes and dtypes, and are combined where the variables
    are, or on `device`."""

    def __init__(
        self,
        variables: Sequence[Any],
        options: SynchronizationOptions | None = None,
        device: str = "",
        *,
        waits: bool = False,
    ) -> None:
        self._variables = [weakref.ref(each) for each in variables]
        self._device = device
        self._counts_updates = False
        #: What follows an agreement with the other ranks, in each world of an elastic job.
        self.when_agreed: Callable[[], None] = lambda: None
        super().__init__(self._described(variables), options, waits=waits)
        self._number = next(_numbers)
        self._present: set[int] = set()
        self._functions: dict[tuple[int, ...], Any] = {}
        self._define()
        runtime.current().steps.add(self)
        weakref.finalize(self, operators.forget_list, self._number).atexit = False

    def _described(self, variables: Sequence[Any]) -> list[TensorDescription]:
        names = names_of(variables)
        self._places = [places.place_of(each, name, self._device) for name, each in zip(names, variables, strict=True)]
        return list(map(_described, names, variables, self._places))

    def restart(self, _tensors: Sequence[TensorDescription] = ()) -> None:
        """See restarting.Restartable. Graphs that were traced before go on with the list."""
        variables = [each() for each in self._variables]
        if any(each is None for each in variables):
            return  # its model is gone
        super().restart(self._described(variables))
        self._define(anew=True)
        if self._counts_updates:
            operators.count_updates(self._number)
        runtime.current().steps.add(self)
        self.when_agreed()

    def synchronize(self, gradients: Mapping[int, tf.Tensor], scale: Any = 1.0) -> dict[int, tf.Tensor]:
        """Combines the gradients of some variables, by index, over all ranks. `scale`: the loss scale, by which they
        are multiplied.

        In a graph each synchronisation begins as soon as the gradient is computed. Eager code starts all and waits.
        """
        if not gradients:
            return {}
        if not tf.executing_eagerly():
            count = len(gradients)
            return {index: self._started({index: each}, count, scale)[index] for index, each in gradients.items()}
        if len({self._places[index].device for index in gradients}) == 1:
            return self._started(gradients, len(gradients), scale)
        # An eager operator has one device and waits, so operators on several devices run in a function.
        indices = tuple(gradients)
        if indices not in self._functions:
            self._functions[indices] = tf.function(
                lambda scale, *values: self.synchronize(dict(zip(indices, values, strict=True)), scale), autograph=False
            )
        with own_errors():
            factor = tf.cast(scale, tf.float32)
            together: dict[int, tf.Tensor] = self._functions[indices](factor, *gradients.values())
        return together

    def _started(self, gradients: Mapping[int, tf.Tensor], step_count: int, scale: Any) -> dict[int, tf.Tensor]:
        """The results of one operator for the gradients of some variables, which are on one device."""
        indices = list(gradients)
        device = self._places[indices[0]].device
        values = list(gradients.values())
        results = operators.synchronize(
            values, self._number, indices, step_count=step_count, device=device, scale=scale
        )
        return dict(zip(indices, results, strict=True))

    def observed(self, variables: Sequence[Any], indices: Iterable[int]) -> AbstractContextManager[Any]:
        """Notes which variables have been updated since the last step. Gradients that are handed over within this
        context carry this to the other ranks. It ignores variables outside of host memory.
        """
        if self._has_no_others():
            return nullcontext()
        on_host = [index for index in indices if places.gpu_of(variables[index]) is None]
        values = {index: _resource(variables[index]) for index in on_host}
        known = {index: value for index, value in values.items() if value is not None}
        if not known:
            return nullcontext()
        operator = operators.observe(list(known.values()), self._number, list(known))
        after: AbstractContextManager[Any] = (
            nullcontext() if tf.executing_eagerly() else tf.control_dependencies([operator])
        )
        return after

    def count_updates(self) -> None:
        """From now on updated() reports updates, and observed() is not used."""
        self._counts_updates = True
        operators.count_updates(self._number)

    def updated(self, variables: Sequence[Any]) -> None:
        """Reports that an optimizer has updated the variables of this list; in a graph, when the operator runs."""
        if self._has_no_others():
            return
        by_device: dict[str, list[int]] = {}
        for index, variable in enumerate(variables):
            by_device.setdefault(places.gpu_of(variable) or places.CPU, []).append(index)
        for device, indices in by_device.items():
            known = [value for value in (_resource(variables[index]) for index in indices) if value is not None]
            operators.updated(known, self._number, indices, device)

    def unfinished(self) -> str | None:
        """See hipress.adapter.unfinished.Step."""
        return operators.unfinished(self._number)

    def steps_taken(self) -> int:
        """See hipress.adapter.unfinished.Step."""
        return operators.steps(self._number)

    def restart_in_graphs(self) -> None:
        """From now on the list restarts when a graph uses it in the next world of an elastic job. A new rank makes its
        list at the same time, when it traces the graph."""
        if not _restarting:
            operators.set_restart(_restart)
        _restarting[self._number] = self

    def progress(self) -> list[int]:
        """See TensorList."""
        return operators.progress(self._number, len(self))

    def continue_from(self, progress: Sequence[int]) -> None:
        """See TensorList."""
        operators.continue_from(self._number, progress)

    def use(self, present: Iterable[int]) -> None:
        """Notes that these variables have gradients in every step of the function that is traced now. Raises
        InvalidArgument, see check_groups().
        """
        self._present.update(present)
        self.check_groups(self._present)

    def all_present(self) -> bool:
        """Whether all variables have gradients in the functions that were traced so far."""
        return len(self._present) == len(self)

    def _send_by(self, options: SynchronizationOptions) -> None:
        """See TensorList. The new options apply to graphs that were traced before, too."""
        super()._send_by(options)
        self._define()
        for index in range(len(self)):
            values = super().held_back(index)
            if values is not None:
                # From here on the operator keeps the unsent residual, because in a graph no Python runs.
                operators.hold_back(self._number, index, values)
                self.sent_with(self._number, index, is_finite=lambda: True)
                self.arrived(self._number)

    def as_saved(self) -> Sequence[TensorDescription]:
        """See TensorList. Uses the last two parts of Keras' paths: a loaded model's paths lack the model's name."""
        seen: Counter[str] = Counter()
        saved = []
        for tensor in self.tensors:
            name = "/".join(tensor.name.split("/")[-2:])
            seen[name] += 1
            saved.append(replace(tensor, name=name if seen[name] == 1 else f"{name}_{seen[name] - 1}"))
        return saved

    def held_back(self, index: int) -> Values | None:
        """See TensorList. The operator keeps the values, except while _send_by() hands them over."""
        waiting = super().held_back(index)
        return operators.held_back(self._number, index, self.tensors[index].count) if waiting is None else waiting

    def set_loss_scale(self, scale: float) -> None:
        """See TensorList. The operator does the same in each step."""
        operators.set_scale(self._number, scale)

    def states_replaced(self) -> None:
        """See TensorList."""
        operators.states_replaced(self._number)

    def replace_held_back(self, values: Mapping[int, Values]) -> None:
        """See TensorList."""
        for index in range(len(self)):
            operators.forget_held_back(self._number, index)
        for index, each in values.items():
            operators.hold_back(self._number, index, each)

    def _define(self, *, anew: bool = False) -> None:
        operators.define_list(self._number, [self.handle(index) for index in range(len(self))], anew=anew)

    def _has_no_others(self) -> bool:
        """Whether the rank is alone as long as the graph lives, which is traced now."""
        return seat() is None and self._world == 1


def _restart(number: int) -> bool:
    synchronizer = _restarting.get(number)
    if synchronizer is None:
        return False
    synchronizer.restart()
    return True
