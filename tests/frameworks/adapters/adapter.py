# SPDX-License-Identifier: Apache-2.0
"""How the checks use a framework."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Adapter(ABC):
    """One framework, as an importable class without arguments: each rank's process makes its own."""

    name: ClassVar[str]
    #: What a rank's process runs first: imports that take long, and "use one thread".
    preparation: ClassVar[str]
    #: Element types that the framework and NumPy have both.
    dtypes: ClassVar[tuple[str, ...]] = ("float32", "float64", "float16", "uint8", "int8", "int32", "int64")
    #: Checks that it cannot pass: name → why.
    not_yet: ClassVar[Mapping[str, str]] = {}

    @property
    @abstractmethod
    def module(self) -> ModuleType:
        """hipress.torch, hipress.tensorflow or hipress.mxnet: what has Horovod's names without tensors."""

    @abstractmethod
    def tensor(self, values: Array) -> Any:
        """A tensor of the framework with these values, in memory of its own."""

    @abstractmethod
    def numpy(self, tensor: Any) -> Array:
        """Its values, when they are there."""

    def call(self, function: str, values: Array, *arguments: Any, **options: Any) -> Array:
        """`module.function(tensor, …)` and its result, both as NumPy."""
        return self.numpy(getattr(self.module, function)(self.tensor(values), *arguments, **options))

    def call_grouped(self, function: str, values: list[Array], *arguments: Any, **options: Any) -> list[Array]:
        """The same for the functions that take and return a list."""
        tensors = [self.tensor(each) for each in values]
        return [self.numpy(result) for result in getattr(self.module, function)(tensors, *arguments, **options)]

    def alltoall(self, values: Array, splits: list[int], name: str) -> tuple[Array, list[int]]:
        """What came from the ranks, and how many rows from each."""
        result, received = self.module.alltoall(self.tensor(values), splits=self.tensor(np.array(splits)), name=name)
        return self.numpy(result), [int(rows) for rows in self.numpy(received)]

    @abstractmethod
    def gradient(self, function: str, values: Array, weights: Array, *arguments: Any, **options: Any) -> Array:
        """The derivative of `sum(weights · module.function(values, …))` by `values`."""

    @abstractmethod
    def encode(self, codec: str, values: Array, *, seed: int, step: int, tensor: int) -> bytes:
        """A message, by the framework's own operator of the codec."""

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

        `weights`: "w" and "b" before. `batches`: this rank's inputs and targets of each step. `options`: of the
        framework's distributed optimizer (codec, topology, op …). `changes`: plans that are set before steps, by their
        numbers. Returns "w" and "b" after the last step.
        """
