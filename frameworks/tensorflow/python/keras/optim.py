# SPDX-License-Identifier: Apache-2.0
"""Optimizers for Keras 3 made for compression: each synchronises the values that its algorithm may compress.

Each replaces DistributedOptimizer and the plain optimizer. A step is one operator of TensorFlow; it computes in NumPy
and exchanges values with all ranks over HiPress' engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import tensorflow as tf
from tensorflow import keras

from hipress import runtime
from hipress.adapter.not_copied import NotCopied
from hipress.adapter.optim.dgc_sgd import DGCOptions, DGCSteps
from hipress.adapter.optim.onebit_adam import OneBitAdamOptions, OneBitAdamSteps
from hipress.adapter.optim.steps import Floats, Moved, Parameter, Rates, checked_number
from hipress.errors import DuplicateName, HipressError, InvalidArgument, Unsupported
from hipress.options.travel import MIN_COMPRESS_BYTES
from hipress.options.warmup import DGC_RATIOS, Warmup, warmup_of
from hipress.tensorflow.traced import as_written
from hipress.tensorflow.training.loss_scaling import watch
from hipress.tensorflow.training.replicas import check_replicas_every

if TYPE_CHECKING:
    _Optimizer: Any
else:
    _Optimizer = keras.optimizers.Optimizer


class _Steps(Protocol):
    def step(self, number: int, parameters: Mapping[str, Parameter]) -> dict[str, Moved]: ...


class SynchronizingOptimizer(NotCopied, _Optimizer):  # type: ignore[misc]
    """The base class of both optimizers. States are variables of Keras, so `model.save()` and checkpoints have them."""

    synchronizes_gradients = True
    #: Names of the states of a parameter.
    _keys: tuple[str, ...] = ()

    def __init__(self, learning_rate: Any, weight_decay: float, name: str) -> None:
        if not hasattr(_Optimizer, "apply"):
            raise Unsupported(f"{type(self).__name__} is for Keras 3, and tf.keras is an older one here")
        decay = checked_number("weight_decay", weight_decay, 0.0)
        super().__init__(learning_rate=learning_rate, name=name)
        watch()
        self._decay = decay
        self._hipress_steps: _Steps | None = None
        self._hipress_states: list[Any] = []
        self._hipress_error: HipressError | None = None

    def _made(self, shapes: Mapping[str, Sequence[int]], rates: str) -> _Steps:
        raise NotImplementedError

    @as_written
    def build(self, variables: Sequence[Any]) -> None:
        """Agrees with the other ranks on the variables, which are float32. Raises InvalidArgument, DuplicateName,
        Unsupported, NotInitialized, Mismatch, Timeout."""
        if self.built:
            return
        shapes = {each.path: tuple(each.shape) for each in variables}
        if len(shapes) < len(variables):
            twice = [each.path for each in variables]
            raise DuplicateName(f"two variables are called '{next(each for each in twice if twice.count(each) > 1)}'")
        for each in variables:
            if each.dtype != "float32":
                raise Unsupported(
                    f"variable '{each.path}' is of type {each.dtype}: {type(self).__name__} takes float32"
                )
        with tf.init_scope():  # model.fit() calls build() while it traces a step
            rates = f"learning_rate {self.get_config()['learning_rate']}, weight_decay {self._decay}"
        self._hipress_steps = self._made(shapes, rates)
        super().build(variables)
        self._hipress_states = [
            self.add_variable_from_reference(each, name=key) for key in self._keys for each in variables
        ]

    @as_written
    def apply(self, grads: Sequence[Any], trainable_variables: Sequence[Any] | None = None) -> None:
        """Takes one step of all variables; a missing gradient counts as zeros. If it raises, nothing has changed.

        Raises PeerLost, Timeout, CorruptPayload, TransportError; the class says when InvalidArgument. Within a
        tf.function TensorFlow raises its own error, whose text begins with the name of HiPress' error.
        """
        if any(getattr(each, "hipress_combined", False) for each in grads):
            raise InvalidArgument(
                f"DistributedGradientTape() has averaged these gradients, and {type(self).__name__} averages what its "
                "algorithm compresses itself: take each rank's own gradients, of a plain tf.GradientTape"
            )
        given = self._trainable_variables if trainable_variables is None else list(trainable_variables)
        if not self.built:
            self.build(given)
        variables = self._trainable_variables
        if [each.path for each in given] != [each.path for each in variables] or len(grads) != len(variables):
            raise InvalidArgument(
                f"{type(self).__name__} was built for {len(variables)} variables: give the gradients of these, in the "
                "same order"
            )
        gradients = [
            tf.zeros(each.shape) if gradient is None else tf.convert_to_tensor(gradient)
            for gradient, each in zip(grads, variables, strict=True)
        ]
        kept = [*variables, *self._hipress_states]
        inputs = [
            tf.cast(tf.convert_to_tensor(self.iterations), tf.int64),
            tf.cast(tf.convert_to_tensor(self.learning_rate), tf.float64),
            *gradients,
            *(tf.convert_to_tensor(each) for each in kept),
        ]
        try:
            new = tf.numpy_function(self._in_numpy, inputs, [tf.float32] * len(kept))
        except tf.errors.OpError:
            if self._hipress_error is None:
                raise
            raise self._hipress_error from None
        for each, values in zip(kept, new, strict=True):
            values.set_shape(each.shape)
            each.assign(values)
        with tf.control_dependencies(new):  # a failed step does not count
            self.iterations.assign_add(1)
        check_replicas_every(runtime.current().options.check_replicas, self.iterations, variables)

    def _in_numpy(self, steps: Any, learning_rate: Any, *arrays: Floats) -> list[Floats]:
        """The variables and states after a step. `arrays`: gradients, variables, then for each key all states."""
        assert self._hipress_steps is not None
        self._hipress_error = None
        names = [each.path for each in self._trainable_variables]
        count = len(names)
        gradients, values = arrays[:count], arrays[count : 2 * count]
        states = [arrays[first : first + count] for first in range(2 * count, len(arrays), count)]
        rates = Rates(float(learning_rate), self._decay)
        given = {
            name: Parameter(
                np.asarray(values[place]),
                np.asarray(gradients[place]),
                {key: np.asarray(each[place]) for key, each in zip(self._keys, states, strict=True)},
                rates,
            )
            for place, name in enumerate(names)
        }
        try:
            moved = self._hipress_steps.step(int(steps) + 1, given)
        except HipressError as error:
            self._hipress_error = error
            raise
        new = [moved[name].value for name in names]
        new += [moved[name].state.get(key, given[name].state[key]) for key in self._keys for name in names]
        return [np.ascontiguousarray(each, np.float32) for each in new]

    @property
    def own_variables(self) -> list[Any]:
        """States that differ between ranks; BroadcastGlobalVariablesCallback does not broadcast them."""
        return []

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        config = super().get_config()
        own = {key: config[key] for key in ("name", "learning_rate")}
        return {**own, "weight_decay": self._decay, **self._configured()}

    def _configured(self) -> dict[str, Any]:
        raise NotImplementedError


@keras.utils.register_keras_serializable(package="hipress")
class OneBitAdam(SynchronizingOptimizer):
    """1-bit Adam: AdamW for `freeze_step` steps; afterwards the variance is frozen and ranks average compressed
    momentum.

    See hipress.torch.optim.OneBitAdam, which takes the same steps.

    Arguments:
        learning_rate: a number, or a schedule of Keras.
        beta_1, beta_2, epsilon, weight_decay: as in Keras' AdamW.
        freeze_step, codec, codec_for, min_compress_bytes: as for hipress.torch.optim.OneBitAdam; names are the
            variables' paths.
        name: name of the optimizer.

    Raises InvalidArgument; build() also raises Unsupported, NotInitialized; Mismatch, with the first difference, if the
    ranks' variables or options differ; Timeout if a rank does not make the optimizer.
    """

    _keys = ("momentum", "variance")

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-8,
        weight_decay: float = 0.01,
        *,
        freeze_step: int,
        codec: str = "onebit",
        codec_for: Mapping[str, str] | None = None,
        min_compress_bytes: int = MIN_COMPRESS_BYTES,
        name: str = "onebit_adam",
    ) -> None:
        options = OneBitAdamOptions(
            freeze_step, beta_1, beta_2, epsilon, codec, dict(codec_for or {}), min_compress_bytes
        )
        super().__init__(learning_rate, weight_decay, name)
        self._options = options

    def _made(self, shapes: Mapping[str, Sequence[int]], rates: str) -> _Steps:
        return OneBitAdamSteps(shapes, self._options, rates)

    def _configured(self) -> dict[str, Any]:
        return asdict(self._options)


@keras.utils.register_keras_serializable(package="hipress")
class DGCSGD(SynchronizingOptimizer):
    """SGD with deep gradient compression: each rank sends the largest sums of its momentum, and keeps the rest.

    See hipress.torch.optim.DGCSGD, which takes the same steps. Each rank has its own velocity and residual of a
    compressed variable, so every rank saves its own model or checkpoint.

    Arguments:
        learning_rate: a number, or a schedule of Keras.
        momentum, nesterov: as in Keras' SGD.
        weight_decay: as in Keras' SGD, but with its own momentum.
        ratio, warmup, clip_norm, momentum_masking, min_compress_bytes, compress_vectors: as for
            hipress.torch.optim.DGCSGD.
        name: name of the optimizer.

    Raises the errors of OneBitAdam.
    """

    _keys = ("velocity", "residual", "decay_velocity")

    def __init__(
        self,
        learning_rate: Any = 0.01,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        *,
        ratio: float = 0.001,
        warmup: int | Warmup | Mapping[str, Any] | None = None,
        nesterov: bool = False,
        clip_norm: float | None = None,
        momentum_masking: bool = True,
        min_compress_bytes: int = MIN_COMPRESS_BYTES,
        compress_vectors: bool = False,
        name: str = "dgc_sgd",
    ) -> None:
        # A saved model has the warm-up as plain values.
        made = Warmup(**{**warmup, "ratios": tuple(warmup["ratios"])}) if isinstance(warmup, Mapping) else warmup
        options = DGCOptions(
            momentum, ratio, made, nesterov, clip_norm, momentum_masking, min_compress_bytes, compress_vectors
        )
        super().__init__(learning_rate, weight_decay, name)
        self._options = options

    def _made(self, shapes: Mapping[str, Sequence[int]], rates: str) -> _Steps:
        return DGCSteps(shapes, self._options, rates)

    @property
    def own_variables(self) -> list[Any]:
        """The velocities and residuals of compressed variables."""
        steps, variables = self._hipress_steps, self._trainable_variables
        if not isinstance(steps, DGCSteps):
            return []  # not built yet
        own = self._hipress_states[: 2 * len(variables)]  # without "decay_velocity"
        paths = [each.path for each in variables] * 2
        return [state for state, path in zip(own, paths, strict=True) if steps.is_sparse(path)]

    def _configured(self) -> dict[str, Any]:
        warmup = warmup_of(self._options.warmup)
        plain = None if warmup is None else {**asdict(warmup), "ratios": list(warmup.ratios)}
        return {**asdict(self._options), "warmup": plain}


__all__ = ["DGCSGD", "DGC_RATIOS", "OneBitAdam", "Warmup"]
