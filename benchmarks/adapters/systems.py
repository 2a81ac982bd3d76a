# SPDX-License-Identifier: Apache-2.0
"""The systems of adapters.py. Each averages gradients as its framework's DistributedOptimizer or DistributedTrainer
does. All gradients are complete when the clock starts; all averages are complete when it stops."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from benchmarks.harness.values import Array
from benchmarks.models import GradientSet
from hipress.adapter.synchronizer import SynchronizationOptions


class Clock(Protocol):
    """The clock of a rank, which all ranks start together."""

    def start(self) -> None:
        """Starts the clock: all gradients are complete."""

    def stop(self) -> None:
        """Stops the clock: all averages are complete."""


class System(ABC):
    """The averaging of one framework, with gradients in the framework's memory."""

    @abstractmethod
    def repeat(self, clock: Clock) -> None:
        """Makes gradients with the values, starts the clock, averages them, and stops the clock."""

    @abstractmethod
    def averages(self) -> Iterable[Array]:
        """The averages of the last repetition."""


def last_first(gradients: Sequence[Any]) -> Iterable[int]:
    """The indices of the gradients in the order of backward: the last layer comes first."""
    return reversed(range(len(gradients)))


class Torch(System):
    """hipress.torch: submits each gradient in the order of backward, and then waits for all."""

    def __init__(self, gradients: GradientSet, values: Sequence[Array], options: SynchronizationOptions) -> None:
        import torch

        import hipress.torch as hp

        self._sources = [torch.from_numpy(value) for value in values]
        self._tensors = [torch.empty_like(source) for source in self._sources]
        names = [gradient.name for gradient in gradients.gradients]
        self._synchronizer = hp.GradientSynchronizer(list(zip(names, self._tensors, strict=True)), options)

    def repeat(self, clock: Clock) -> None:
        for tensor, source in zip(self._tensors, self._sources, strict=True):
            tensor.copy_(source)
        clock.start()
        handles = [self._synchronizer.submit(index, self._tensors[index]) for index in last_first(self._tensors)]
        for handle in handles:
            self._synchronizer.wait(handle)
        clock.stop()

    def averages(self) -> Iterable[Array]:
        return (tensor.numpy() for tensor in self._tensors)


class TensorFlow(System):
    """hipress.tensorflow in a graph: one operation makes each gradient, and another submits it.

    The clock is part of the graph, too. If the graph got the gradients as inputs, they would belong to the caller, and
    the averages would need other memory.
    """

    def __init__(self, gradients: GradientSet, values: Sequence[Array], options: SynchronizationOptions) -> None:
        import tensorflow as tf

        from hipress.tensorflow.training.synchronizer import GradientSynchronizer

        self._tf = tf
        named = zip(gradients.gradients, values, strict=True)
        self._sources = [tf.Variable(value, name=gradient.name) for gradient, value in named]
        self._synchronizer = GradientSynchronizer(self._sources, options)
        self._graph = tf.function(self._build)
        self._one = tf.constant(1.0)
        self._clock: Clock | None = None
        self._averages: list[Any] = []

    def _build(self, one: Any) -> list[Any]:
        tf = self._tf
        gradients = [source * one for source in self._sources]
        with tf.control_dependencies(gradients), tf.control_dependencies([self._call(lambda clock: clock.start())]):
            averages = self._synchronizer.synchronize({index: gradients[index] for index in last_first(gradients)})
        with tf.control_dependencies(averages.values()), tf.control_dependencies([self._call(lambda c: c.stop())]):
            return [tf.identity(averages[index]) for index in range(len(gradients))]

    def _call(self, what: Callable[[Clock], None]) -> Any:
        def call() -> np.bool_:
            assert self._clock is not None
            what(self._clock)
            return np.bool_(True)

        return self._tf.numpy_function(call, [], self._tf.bool)

    def repeat(self, clock: Clock) -> None:
        self._clock = clock
        # Free the memory of the averages for the next gradients, as in training.
        self._averages.clear()
        self._averages = self._graph(self._one)

    def averages(self) -> Iterable[Array]:
        return (average.numpy() for average in self._averages)


class MXNet(System):
    """hipress.mxnet: gives all gradients to MXNet's engine, as DistributedTrainer does, and then waits for all."""

    def __init__(self, gradients: GradientSet, values: Sequence[Array], options: SynchronizationOptions) -> None:
        import mxnet as mx

        from hipress.mxnet import operators
        from hipress.mxnet.synchronizer import GradientSynchronizer

        self._mx = mx
        self._values = values
        self._arrays = [mx.nd.empty(value.shape) for value in values]
        described = [operators.describe(one.name, one.shape, np.float32) for one in gradients.gradients]
        self._synchronizer = GradientSynchronizer(described, options)

    def repeat(self, clock: Clock) -> None:
        for array, value in zip(self._arrays, self._values, strict=True):
            array[:] = value
        self._mx.nd.waitall()
        clock.start()
        # MXNet's engine starts the gradients in this order, the order of backward.
        self._synchronizer.synchronize({index: self._arrays[index] for index in last_first(self._arrays)})
        # MXNet lets no operation use an average before all are complete, so one wait suffices.
        self._arrays[0].wait_to_read()
        clock.stop()

    def averages(self) -> Iterable[Array]:
        return (array.asnumpy() for array in self._arrays)


SYSTEMS: dict[str, Callable[[GradientSet, Sequence[Array], SynchronizationOptions], System]] = {
    "torch": Torch,
    "tensorflow": TensorFlow,
    "mxnet": MXNet,
}
