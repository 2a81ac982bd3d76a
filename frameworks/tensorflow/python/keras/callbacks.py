# SPDX-License-Identifier: Apache-2.0
"""Callbacks for `model.fit()`, with Horovod's names and meaning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from hipress import runtime
from hipress.errors import InvalidArgument, Unsupported
from hipress.tensorflow.collectives import allreduce
from hipress.tensorflow.state import broadcast_variables


class BroadcastGlobalVariablesCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """Before the first step every rank gets rank `root_rank`'s variables, the model's and the optimizer's."""

    def __init__(self, root_rank: int = 0) -> None:
        super().__init__()
        self._root_rank = root_rank
        self._done = False
        self._local: set[int] = set()

    def register_local_var(self, variable: Any) -> None:
        """This variable stays each rank's own."""
        self._local.add(id(variable))

    def on_train_begin(self, logs: Any = None) -> None:
        if self.model.jit_compile:
            raise Unsupported(
                "XLA cannot compile a step that exchanges gradients: model.compile(..., jit_compile=False)"
            )
        if self.model.built and not self._done:
            optimizer = self.model.optimizer
            if not optimizer.built:
                optimizer.build(self.model.trainable_variables)
            self._broadcast()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if not self._done:  # the model had no variables before
            self._broadcast()

    def _broadcast(self) -> None:
        variables = [*self.model.variables, *self.model.optimizer.variables]
        # A model's metrics are its variables, too; what it has several times is sent once.
        once = {id(variable): variable for variable in variables if id(variable) not in self._local}
        broadcast_variables(once.values(), self._root_rank)
        self._done = True


class PlanCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """With DistributedOptimizer(..., plan="auto"): between steps plans may be made and change."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        optimizer = self.model.optimizer
        # Keras' LossScaleOptimizer is around the distributed one.
        distributed: Any = (
            optimizer if hasattr(optimizer, "step_ended") else getattr(optimizer, "inner_optimizer", None)
        )
        if not hasattr(distributed, "step_ended"):
            raise InvalidArgument("PlanCallback is for a model that was compiled with a DistributedOptimizer")
        distributed.step_ended()


class MetricAverageCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """At the end of each epoch its metrics are averaged over all ranks, for the callbacks that come after it."""

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if not logs:
            return
        names = sorted(name for name, value in logs.items() if np.isscalar(value) or np.ndim(value) == 0)
        values = np.array([float(logs[name]) for name in names])
        averages = allreduce(values, name=f"metrics {' '.join(names)}")
        logs.update(zip(names, map(float, averages.numpy()), strict=True))


class LearningRateScheduleCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """From `start_epoch` to `end_epoch` the learning rate is `initial_lr` times `multiplier`.

    Arguments:
        multiplier: a number m, for m to the power of the epochs since `start_epoch`; or a function of the epoch.
        staircase: the rate changes with each epoch; else with each step.
        momentum_correction: what momentum has gathered is scaled with the rate (Goyal et al., Accurate, Large Minibatch
            SGD, section 2.1).
        steps_per_epoch: needed without staircase where `fit()` does not know it.
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
        return float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate))

    def _adjust(self, epoch: float) -> None:
        optimizer = self.model.optimizer
        before, after = self._rate(), self._initial_lr * self._multiplier(epoch)
        optimizer.learning_rate = after
        if self._momentum_correction and before > 0 and after != before:
            # Keras' momentum is part of the traced step. Scaling what it has gathered is the same, once.
            for velocity in _velocities(getattr(optimizer, "inner_optimizer", optimizer)):
                velocity.assign(velocity * (after / before))


def _velocities(optimizer: Any) -> list[Any]:
    """What momentum, as SGD and RMSprop have it, has gathered."""
    if not getattr(optimizer, "momentum", 0):
        return []
    gathered: Any = getattr(optimizer, "momentums", None) or getattr(optimizer, "_momentums", ())
    return list(gathered)


class LearningRateWarmupCallback(LearningRateScheduleCallback):
    """The learning rate grows from `initial_lr` / size() to `initial_lr` over the first epochs.

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
            # Round numbers at the end of each epoch, as Horovod has them.
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
