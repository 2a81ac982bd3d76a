# SPDX-License-Identifier: Apache-2.0
"""Synchronises a fixed list of tensors again and again: what DistributedOptimizer is built on."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch

from hipress.adapter.synchronizer import SynchronizationOptions, TensorDescription, TensorList
from hipress.torch import operators


def _described(name: str, tensor: torch.Tensor) -> TensorDescription:
    operators.check_tensor(tensor.detach(), name)
    return TensorDescription(
        name,
        operators.DTYPE_NAMES[tensor.dtype],
        tensor.numel(),
        operators.shape_text(tensor),
        operators.device_of(tensor, name),
    )


class GradientSynchronizer(TensorList):
    """A TensorList of (name, tensor) pairs, whose shapes and dtypes are taken from the tensors."""

    def __init__(
        self,
        named_tensors: Iterable[tuple[str, torch.Tensor]],
        options: SynchronizationOptions | None = None,
    ) -> None:
        super().__init__([_described(name, tensor) for name, tensor in named_tensors], options)

    def extend_by(self, named_tensors: Iterable[tuple[str, torch.Tensor]]) -> None:
        """See TensorList.extend()."""
        self.extend([_described(name, tensor) for name, tensor in named_tensors])

    def submit(self, index: int, tensor: torch.Tensor, updates: int = -1) -> int:
        """Starts synchronising the values of the tensor at `index`, in place; returns a handle for `wait()`.

        Returns at once. `tensor` must not be touched until `wait()`. `updates`: how many steps this rank has taken with
        earlier results, below 0: it does not count; a rank with another number makes it a Mismatch.
        """
        held_back = self.held_back(index)
        if held_back is not None:
            operators.check_tensor(tensor, self.name(index))
            in_memory_order = tensor.detach().as_strided((tensor.numel(),), (1,))
            in_memory_order.add_(torch.from_numpy(held_back).to(tensor.device))
        operation = self._started(operators.submit_in_place, index, tensor, updates)
        if held_back is not None:
            self.sent_with(operation, index, is_finite=lambda: bool(tensor.isfinite().all()))
        return operation

    def submit_absent(self, index: int, output: torch.Tensor, updates: int = -1) -> int:
        """Takes part without values: `output` receives what the other ranks have."""
        return self._started(operators.submit_absent, index, output, updates)

    def _started(self, operator: Callable[..., int], index: int, tensor: torch.Tensor, updates: int) -> int:
        """The operator checks the tensor. What is wrong is found out afterwards: most tensors are right."""
        declared = self.handle(index)
        try:
            # On the host without a stream: torch takes time to convert each argument.
            operation = (
                operator(tensor, declared, updates, operators.stream_of(tensor))
                if tensor.is_cuda
                else operator(tensor, declared, updates)
            )
        except RuntimeError:  # torch's own
            operators.check_tensor(tensor, self.name(index))
            raise
        if operation < 0:
            operators.raise_refusal(tensor, self.name(index))
        return operation
