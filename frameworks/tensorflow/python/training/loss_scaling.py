# SPDX-License-Identifier: Apache-2.0
"""Loss scaling around a distributed optimizer: all ranks leave out the same steps.

Keras' LossScaleOptimizer looks at the gradients that it is given, and leaves a step out if one is not finite. Under
the policy mixed_float16 Keras itself puts it around the optimizer of model.compile(). Around a distributed optimizer it
must get combined gradients; otherwise one rank leaves a step out alone, and later gradients of different steps meet.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import keras
import tensorflow as tf

from hipress import runtime
from hipress.adapter.lists.checks import keeps_states
from hipress.adapter.reduce_ops import Min
from hipress.errors import Unsupported
from hipress.tensorflow.collectives import allreduce
from hipress.tensorflow.traced import as_written
from hipress.tensorflow.training.distributed_optimizer import (
    DistributedTensorflowOptimizer,
    combine_and_apply,
    combine_and_apply_pairs,
)
from hipress.tensorflow.training.gradients import tape_lists


def watch() -> None:
    """Makes the loss scalers of Keras and tf_keras know distributed optimizers, once in a process."""
    scaler = keras.optimizers.LossScaleOptimizer
    if not hasattr(scaler.apply, "of_hipress"):
        scaler.apply = _marked(_applying(scaler.apply))
        scaler.check_finite = _checking(scaler.check_finite)
    tf_keras = sys.modules.get("tf_keras")
    if tf_keras is None:
        return
    for kind in tf_keras.mixed_precision.LossScaleOptimizer.__subclasses__():  # one for each kind of optimizers
        if "apply_gradients" in vars(kind) and not hasattr(kind.apply_gradients, "of_hipress"):
            kind.apply_gradients = _marked(_applying_pairs(kind.apply_gradients))


def inner_optimizers(optimizer: Any) -> list[Any]:
    """The optimizers inside of a loss scaler, from the outermost; empty for other optimizers."""
    inside: list[Any] = []
    while (optimizer := getattr(optimizer, "inner_optimizer", None)) is not None:
        inside.append(optimizer)
    return inside


def distributed_within(optimizer: Any) -> DistributedTensorflowOptimizer | None:
    """The distributed optimizer, which may be inside of loss scalers; None: there is none."""
    every = [optimizer, *inner_optimizers(optimizer)]
    return next((each for each in every if isinstance(each, DistributedTensorflowOptimizer)), None)


def _marked(function: Any) -> Any:
    function.of_hipress = True
    return function


def _around(scaler: Any) -> DistributedTensorflowOptimizer | None:
    """The distributed optimizer inside of this loss scaler that still has to combine the gradients; else None."""
    distributed = distributed_within(scaler)
    return None if distributed is None or distributed is scaler or not distributed._hipress_combines else distributed


def _applying(own: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(own)
    def apply(self: Any, grads: Sequence[Any], trainable_variables: Sequence[Any] | None = None) -> None:
        distributed = _around(self)
        if distributed is not None:
            take = as_written(functools.partial(own, self))
            as_written(combine_and_apply)(distributed, self, take, grads, trainable_variables)
            return
        if distributed_within(self) is None:
            _refuse_tapes(trainable_variables or self._trainable_variables)
        own(self, grads, trainable_variables)

    return apply


def _applying_pairs(own: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(own)
    def apply_gradients(self: Any, grads_and_vars: Iterable[tuple[Any, Any]], *arguments: Any, **keywords: Any) -> Any:
        pairs = list(grads_and_vars)
        distributed = _around(self)
        if distributed is not None:
            take = functools.partial(own, self)
            return as_written(combine_and_apply_pairs)(distributed, self, take, pairs, *arguments, **keywords)
        if distributed_within(self) is None:
            _refuse_tapes([variable for _, variable in pairs])
        return own(self, pairs, *arguments, **keywords)

    return apply_gradients


def _checking(own: Callable[..., Any]) -> Callable[..., Any]:
    """For OneBitAdam and DGCSGD, which take each rank's own gradients: a step is finite if it is on all ranks."""

    @functools.wraps(own)
    def check_finite(self: Any, grads: Sequence[Any]) -> Any:
        finite = own(self, grads)
        if not any(getattr(each, "synchronizes_gradients", False) for each in inner_optimizers(self)):
            return finite
        everywhere = allreduce(tf.cast(finite, tf.int32), op=Min, name=f"{self.name}.finite")
        return tf.cast(everywhere, tf.bool)

    return check_finite


def _refuse_tapes(variables: Sequence[Any]) -> None:
    """Raises Unsupported if a tape compresses gradients of these variables with a codec that keeps states: they would
    be in units of the scale of their step, which the tape does not know."""
    if not runtime.is_initialized() or runtime.size() == 1:
        return
    for codec in sorted({codec for lists in tape_lists() for codec in lists.codecs_of(variables)}):
        if keeps_states(codec):
            raise Unsupported(
                f"DistributedGradientTape(codec={codec!r}) keeps values of each step for the next ones, and this "
                "optimizer changes the loss scale between steps, which the tape does not know. Combine in the "
                f"optimizer in place of the tape: hp.DistributedOptimizer(LossScaleOptimizer(...), codec={codec!r}), "
                "or give the tape a codec that keeps nothing, such as 'int8'"
            )
