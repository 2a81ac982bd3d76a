# SPDX-License-Identifier: Apache-2.0
"""States of trainings with TensorFlow and Keras that survive lost ranks, under Horovod's names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from hipress import runtime
from hipress.adapter.lists.moved_states import CommittedStates
from hipress.elastic import ObjectState, State, run_fn
from hipress.elastic.worlds import reset
from hipress.errors import InvalidArgument, Unsupported
from hipress.tensorflow import operators
from hipress.tensorflow.failures import own_error
from hipress.tensorflow.training.loss_scaling import distributed_within
from hipress.tensorflow.training.state import broadcast_object, broadcast_variables
from hipress.tensorflow.training.synchronizer import GradientSynchronizer

_P = ParamSpec("_P")
_Result = TypeVar("_Result")
_AnyState = TypeVar("_AnyState", bound=State)


def run(func: Callable[Concatenate[_AnyState, _P], _Result]) -> Callable[Concatenate[_AnyState, _P], _Result]:
    """A decorator: makes a training function elastic, see hipress.elastic.run(). It knows HiPress' errors in errors of
    graphs and of model.fit()."""
    return run_fn(func, reset, own_error)


class _VariablesState(ObjectState):
    """Variables, and plain values. A derived class says which variables."""

    def __init__(self, **kwargs: Any) -> None:
        self._kept: list[NDArray[Any]] = []
        super().__init__(broadcast_object, runtime.rank, **kwargs)
        self._keep()

    def _tracked(self) -> Sequence[Any]:
        raise NotImplementedError

    def save(self) -> None:
        self._keep()
        super().save()

    def restore(self) -> None:
        for variable, value in zip(self._tracked(), self._kept, strict=True):
            variable.assign(value)
        operators.forget_values()
        super().restore()

    def sync(self) -> None:
        broadcast_variables(self._tracked(), root_rank=0)
        super().sync()
        self._keep()

    def _keep(self) -> None:
        self._kept = [np.array(variable) for variable in self._tracked()]


class TensorFlowState(_VariablesState):
    """Variables of TensorFlow, and plain values, each an attribute.

    Arguments:
        variables: the variables.
        session: Horovod's, for graphs of TensorFlow 1. Another value than None raises Unsupported.
        kwargs: plain values, such as `step=0`.
    """

    def __init__(self, variables: Iterable[Any] | None = None, session: Any = None, **kwargs: Any) -> None:
        _check_eager(session, "session")
        self.variables = list(variables or ())
        if not self.variables:
            raise InvalidArgument("TensorFlowState(variables): give the variables that the training changes")
        super().__init__(**kwargs)

    def _tracked(self) -> Sequence[Any]:
        return self.variables


class TensorFlowKerasState(_VariablesState):
    """A model of Keras, its optimizer, and plain values, each an attribute.

    What codecs of a DistributedOptimizer keep on each rank is part of it: a commit keeps it, and it moves into the next
    world of ranks. A new rank begins without residuals.

    Arguments:
        model: a built model.
        optimizer: its optimizer; None: `model.optimizer`, which compile() sets.
        backend: Horovod's, for graphs of TensorFlow 1. Another value than None raises Unsupported.
        kwargs: plain values, such as `epoch=0`.

    Raises InvalidArgument for a model that is not built, or has no optimizer.
    """

    def __init__(self, model: Any, optimizer: Any = None, backend: Any = None, **kwargs: Any) -> None:
        _check_eager(backend, "backend")
        if not getattr(model, "built", True):
            raise InvalidArgument("TensorFlowKerasState(model): build the model first, model.build(input_shape)")
        self.model = model
        self.optimizer: Any = optimizer or getattr(model, "optimizer", None)
        if self.optimizer is None:
            raise InvalidArgument("TensorFlowKerasState(model): compile the model first, or give its optimizer, too")
        if not getattr(self.optimizer, "built", True):
            self.optimizer.build(model.trainable_variables)
        self._tensors = _list_of(self.optimizer, model.trainable_variables)
        self._codecs = None if self._tensors is None else CommittedStates(self._tensors)
        super().__init__(**kwargs)

    def _tracked(self) -> Sequence[Any]:
        of_optimizer = self.optimizer.variables
        every = [*self.model.variables, *(of_optimizer() if callable(of_optimizer) else of_optimizer)]
        # A variable of Keras 3 and TensorFlow's variable in it are one.
        once = {id(each.value if _is_keras(each) else each): each for each in every}
        return list(once.values())

    def save(self) -> None:
        super().save()
        self.before_reset()

    def restore(self) -> None:
        super().restore()
        if self._codecs is not None:
            self._codecs.restore()

    def sync(self) -> None:
        if self._codecs is not None:
            self._codecs.sync()
        super().sync()
        self.before_reset()

    def before_reset(self) -> None:
        if self._codecs is not None:
            self._codecs.save()

    def position(self) -> list[int]:
        return [] if self._tensors is None else [self._tensors.steps_taken()]

    def residual(self) -> float:
        return 0.0 if self._codecs is None else self._codecs.residual()


def _is_keras(variable: Any) -> bool:
    return not isinstance(variable, tf.Variable) and isinstance(getattr(variable, "value", None), tf.Variable)


def _list_of(optimizer: Any, variables: Sequence[Any]) -> GradientSynchronizer | None:
    """The list of the gradients of a distributed optimizer; None for another one."""
    distributed = distributed_within(optimizer)
    if distributed is None:
        return None
    shared = distributed._hipress_local.without(list(variables))
    return distributed._hipress_lists.list_of(shared, "TensorFlowKerasState") if shared else None


def _check_eager(given: Any, name: str) -> None:
    if given is not None or not tf.executing_eagerly():
        raise Unsupported(f"elastic training with {name}: it is for eager code and tf.function, not for sessions")
