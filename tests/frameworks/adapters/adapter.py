# SPDX-License-Identifier: Apache-2.0
"""The interface through which the checks use a framework."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Adapter(ABC):
    """One framework. Each rank's process imports the class and makes an instance without arguments."""

    name: ClassVar[str]
    #: Element types that both the framework and NumPy have.
    dtypes: ClassVar[tuple[str, ...]] = ("float32", "float64", "float16", "uint8", "int8", "int32", "int64")
    #: Checks that the framework cannot pass: name → reason.
    not_yet: ClassVar[Mapping[str, str]] = {}

    @property
    @abstractmethod
    def module(self) -> ModuleType:
        """hipress.torch, hipress.tensorflow or hipress.mxnet: the module with Horovod's names that take no tensors."""

    @abstractmethod
    def tensor(self, values: Array) -> Any:
        """A tensor of the framework with these values, in its own memory."""

    @abstractmethod
    def numpy(self, tensor: Any) -> Array:
        """The tensor's values, once they are computed."""

    def call(self, function: str, values: Array, *arguments: Any, **options: Any) -> Array:
        """Calls `module.function(tensor, …)` and returns the result; values and result are NumPy arrays."""
        return self.numpy(getattr(self.module, function)(self.tensor(values), *arguments, **options))

    def call_grouped(self, function: str, values: list[Array], *arguments: Any, **options: Any) -> list[Array]:
        """The same as call(), for functions that take and return a list."""
        tensors = [self.tensor(each) for each in values]
        return [self.numpy(result) for result in getattr(self.module, function)(tensors, *arguments, **options)]

    def alltoall(self, values: Array, splits: list[int], name: str) -> tuple[Array, list[int]]:
        """The rows that arrived from all ranks, and the number of rows from each rank."""
        result, received = self.module.alltoall(self.tensor(values), splits=self.tensor(np.array(splits)), name=name)
        return self.numpy(result), [int(rows) for rows in self.numpy(received)]

    @abstractmethod
    def gradient(self, function: str, values: Array, weights: Array, *arguments: Any, **options: Any) -> Array:
        """The derivative of `sum(weights · module.function(values, …))` with respect to `values`."""

    @abstractmethod
    def encode(self, codec: str, values: Array, *, seed: int, step: int, tensor: int) -> bytes:
        """The message that the framework's own operator of the codec makes."""

    @abstractmethod
    def train(
        self,
        weights: dict[str, Array],
        batches: list[tuple[Array, Array]],
        *,
        changes: Mapping[int, Any] | None = None,
        **options: Any,
    ) -> dict[str, Array]:
        """Fits a linear model `x @ w + b` by plain SGD with learning rate 0.1 on the mean squared error.

        `weights`: "w" and "b" at the start. `batches`: this rank's inputs and targets of each step. `options`: options
        of the framework's distributed optimizer (codec, topology, op …). `changes`: the plans that are set before a
        step, by the step's number. Returns "w" and "b" after the last step.
        """
