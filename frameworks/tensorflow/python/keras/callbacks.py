# SPDX-License-Identifier: Apache-2.0
"""Callbacks for `model.fit()`, with Horovod's names and meaning, for the Keras version behind tf.keras.

`device` is Horovod's and changes nothing: the operators run on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow import keras

from hipress import runtime
from hipress.errors import InvalidArgument, Unsupported
from hipress.tensorflow.collectives import allreduce
from hipress.tensorflow.training.loss_scaling import distributed_within, inner_optimizers
from hipress.tensorflow.training.state import broadcast_variables


class BroadcastGlobalVariablesCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """Before the first step every rank gets rank `root_rank`'s variables, the model's and the optimizer's.

    Arguments:
        local_variables: one variable or several, of which each rank keeps its own values.

    Raises InvalidArgument if one of `local_variables` is no variable.
    """

    def __init__(
        self, root_rank: int = 0, device: str = "", local_variables: Any | Iterable[Any] | None = None
    ) -> None:
        super().__init__()
        self._root_rank = root_rank
        self._done = False
        self._local: dict[int, Any] = {}
        given = [] if local_variables is None else local_variables
        for variable in [given] if _is_variable(given) else given:
            self.register_local_var(variable)

    def register_local_var(self, variable: Any) -> None:
        """Each rank keeps its own value of this variable."""
        if not _is_variable(variable):
            raise InvalidArgument(f"local variables are variables of Keras or TensorFlow, not {variable!r}")
        self._local[_identity(variable)] = variable  # the reference keeps other objects from getting its id

    def on_train_begin(self, logs: Any = None) -> None:
        if getattr(self.model, "jit_compile", False):
            raise Unsupported(
                "XLA cannot compile a step that exchanges gradients: model.compile(..., jit_compile=False)"
            )
        if self.model.built and not self._done:
            optimizer = self.model.optimizer
            if not getattr(optimizer, "built", True):
                optimizer.build(self.model.trainable_variables)
            self._broadcast()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if not self._done:  # the first batch has created the variables
            self._broadcast()

    def _broadcast(self) -> None:
        variables = [*self.model.variables, *_variables(self.model.optimizer)]
        # The model's variables include its metrics; a variable that occurs several times is sent once.
        once = {_identity(variable): variable for variable in variables}
        optimizers = [self.model.optimizer, *inner_optimizers(self.model.optimizer)]
        own = {_identity(each) for optimizer in optimizers for each in getattr(optimizer, "own_variables", ())}
        shared = [variable for identity, variable in once.items() if identity not in {*self._local, *own}]
        broadcast_variables(shared, self._root_rank)
        self._done = True


def _is_variable(value: Any) -> bool:
    return isinstance(value, tf.Variable) or isinstance(getattr(value, "value", None), tf.Variable)


def _identity(variable: Any) -> int:
    """One number for a variable of Keras 3 and for TensorFlow's variable in it."""
    return id(variable if isinstance(variable, tf.Variable) else variable.value)


def _variables(optimizer: Any) -> list[Any]:
    variables = optimizer.variables
    return list(variables() if callable(variables) else variables)  # tf_keras.optimizers.legacy has a method


class PlanCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """Lets DistributedOptimizer(..., plan="auto") make and change plans between steps."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        distributed = distributed_within(self.model.optimizer)
        if distributed is None:
            raise InvalidArgument("PlanCallback is for a model that was compiled with a DistributedOptimizer")
        distributed.step_ended()


class MetricAverageCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """Averages the metrics of each epoch over all ranks at its end, for the callbacks that come later in the list."""

    def __init__(self, device: str = "") -> None:
        super().__init__()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if not logs:
            return
        names = sorted(name for name, value in logs.items() if np.isscalar(value) or np.ndim(value) == 0)
        values = np.array([float(logs[name]) for name in names])
        averages = allreduce(values, name=f"metrics {' '.join(names)}")
        logs.update(zip(names, map(float, averages.numpy()), strict=True))


class LearningRateScheduleCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """Sets the learning rate to `initial_lr` times `multiplier` from `start_epoch` to `end_epoch`.

    Arguments:
        multiplier: a number m, which is raised to the number of epochs since `start_epoch`; or a function of the epoch.
        staircase: True: the rate changes with each epoch; False: with each step.
        momentum_correction: whether the velocities of momentum are scaled with the rate (Goyal et al., Accurate, Large
            Minibatch SGD, section 2.1).
        steps_per_epoch: number of steps; needed without staircase if `fit()` does not know it.
    """

    def __init__(
        self,
        initial_lr: float,
        multiplier: float | Callable[[float], float],
        start_epoch: int = 0,
        end_epoch: int | None = None,
        staircase: bool = True,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
    ) -> None:
        super().__init__()
        self._initial_lr = initial_lr
        self._multiplier = (
            multiplier if callable(multiplier) else lambda epoch: float(multiplier) ** (epoch - start_epoch)
        )
        self._start, self._end = start_epoch, end_epoch
        self._staircase = staircase
        self._momentum_correction = momentum_correction
        self.steps_per_epoch = steps_per_epoch
        self._epoch = 0

    def on_train_begin(self, logs: Any = None) -> None:
        if not self._staircase and not self.steps_per_epoch:
            self.steps_per_epoch = self.params.get("steps")
            if not self.steps_per_epoch:
                raise InvalidArgument(
                    f"fit() does not say how many steps an epoch has: {type(self).__name__} needs steps_per_epoch"
                )

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._epoch = epoch

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if self._epoch < self._start or (self._end is not None and self._epoch >= self._end):
            return
        if not self._staircase:
            assert self.steps_per_epoch is not None
            self._adjust(self._epoch + batch / self.steps_per_epoch)
        elif batch == 0:
            self._adjust(self._epoch)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if logs is not None:
            logs["lr"] = self._rate()

    def _rate(self) -> float:
        return float(tf.convert_to_tensor(self.model.optimizer.learning_rate))

    def _adjust(self, epoch: float) -> None:
        optimizer = self.model.optimizer
        before, after = self._rate(), self._initial_lr * self._multiplier(epoch)
        optimizer.learning_rate = after
        if self._momentum_correction and before > 0 and after != before:
            # Momentum is a constant of Keras' traced step. Scaling the velocities once has the same effect as changing
            # it.
            for velocity in _velocities(getattr(optimizer, "inner_optimizer", optimizer), self.model):
                velocity.assign(velocity * (after / before))


def _velocities(optimizer: Any, model: Any) -> list[Any]:
    """The velocities of an optimizer with momentum, such as SGD or RMSprop."""
    if hasattr(optimizer, "get_slot_names"):  # tf_keras.optimizers.legacy
        has_some = "momentum" in optimizer.get_slot_names()
        return [optimizer.get_slot(each, "momentum") for each in model.trainable_variables] if has_some else []
    if not getattr(optimizer, "momentum", 0):
        return []
    gathered: Any = getattr(optimizer, "momentums", None) or getattr(optimizer, "_momentums", ())
    return list(gathered)


class LearningRateWarmupCallback(LearningRateScheduleCallback):
    """Raises the learning rate from `initial_lr` / size() to `initial_lr` over the first epochs.

    `initial_lr` is the rate for all ranks together, usually that of one rank times size().
    """

    def __init__(
        self,
        initial_lr: float,
        warmup_epochs: int = 5,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
        verbose: int = 0,
    ) -> None:
        def multiplier(epoch: float) -> float:
            assert self.steps_per_epoch is not None
            # The shift by one step gives round rates at the end of each epoch, as in Horovod.
            epoch += 1.0 / self.steps_per_epoch
            return 1.0 / runtime.size() * (epoch * (runtime.size() - 1) / warmup_epochs + 1)

        super().__init__(
            initial_lr,
            multiplier,
            start_epoch=0,
            end_epoch=warmup_epochs,
            staircase=False,
            momentum_correction=momentum_correction,
            steps_per_epoch=steps_per_epoch,
        )
        self._verbose = verbose

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        super().on_epoch_end(epoch, logs)
        if epoch + 1 == self._end and self._verbose and runtime.rank() == 0:
            print(f"\nEpoch {epoch + 1}: finished gradual learning rate warmup to {self._rate():g}.")


class BestModelCheckpoint(keras.callbacks.ModelCheckpoint):  # type: ignore[misc]
    """Keras' ModelCheckpoint that keeps only the best model. The script sets the file after it has made the callback:
    `callback.filepath = "best.keras"`, with `save_weights_only=True` "best.weights.h5".

    Raises InvalidArgument when training begins without a file.
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        verbose: int = 0,
        save_weights_only: bool = False,
        mode: str = "auto",
        save_freq: str | int = "epoch",
    ) -> None:
        super().__init__(
            "best.weights.h5" if save_weights_only else "best.keras",  # Keras checks the file's ending
            monitor=monitor,
            verbose=verbose,
            save_best_only=True,
            save_weights_only=save_weights_only,
            mode=mode,
            save_freq=save_freq,
        )
        self.filepath: Any = None

    def on_train_begin(self, logs: Any = None) -> None:
        if self.filepath is None:
            raise InvalidArgument('BestModelCheckpoint has no file to write to: set callback.filepath = "best.keras"')
        super().on_train_begin(logs)
