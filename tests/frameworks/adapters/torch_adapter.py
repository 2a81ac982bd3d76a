# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np
import torch

import hipress.torch
from tests.frameworks.adapters.adapter import Adapter, Array


class TorchAdapter(Adapter):
    name = "torch"
    dtypes = (*Adapter.dtypes, "int16", "bool")

    @property
    def module(self) -> ModuleType:
        return hipress.torch

    def tensor(self, values: Array) -> torch.Tensor:
        return torch.from_numpy(np.array(values))

    def numpy(self, tensor: torch.Tensor) -> Array:
        values: Array = tensor.detach().numpy()
        return values

    def gradient(self, function: str, values: Array, weights: Array, *arguments: Any, **options: Any) -> Array:
        tensor = self.tensor(values).requires_grad_()
        (getattr(self.module, function)(tensor, *arguments, **options) * self.tensor(weights)).sum().backward()
        assert tensor.grad is not None
        return self.numpy(tensor.grad)

    def encode(self, codec: str, values: Array, *, seed: int, step: int, tensor: int) -> bytes:
        encode = getattr(torch.ops.hipress, f"{codec}_encode")
        return self.numpy(encode(self.tensor(values), seed=seed, step=step, tensor=tensor)).tobytes()

    def train(
        self,
        weights: dict[str, Array],
        batches: list[tuple[Array, Array]],
        *,
        changes: Mapping[int, Any] | None = None,
        **options: Any,
    ) -> dict[str, Array]:
        parameters = {name: torch.nn.Parameter(self.tensor(value)) for name, value in weights.items()}
        optimizer = torch.optim.SGD(parameters.values(), lr=0.1)
        optimizer = hipress.torch.DistributedOptimizer(optimizer, parameters.items(), **options)
        for number, (inputs, targets) in enumerate(batches):
            if changes is not None and number in changes:
                optimizer.set_plan(changes[number])
            optimizer.zero_grad()
            outputs = self.tensor(inputs) @ parameters["w"] + parameters["b"]
            torch.nn.functional.mse_loss(outputs, self.tensor(targets)).backward()
            optimizer.step()
        return {name: self.numpy(parameter) for name, parameter in parameters.items()}
