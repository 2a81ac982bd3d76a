# SPDX-License-Identifier: Apache-2.0
"""Synchronises a list of tensors in every step; DistributedOptimizer is built on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch

from hipress.adapter.lists.description import TensorDescription
from hipress.adapter.synchronizer import SynchronizationOptions, TensorList
from hipress.errors import Mismatch
from hipress.torch import operators
from hipress.torch.reals import as_reals
from hipress.torch.scaling.loss_scale import UNSCALED, scaler_in_use, scaling_of

if TYPE_CHECKING:
    from hipress.adapter.warming_up import WarmingUp


def _described(name: str, tensor: torch.Tensor) -> TensorDescription:
    operators.check_tensor(tensor.detach(), name)
    return TensorDescription(
        name,
        operators.core_type(tensor),
        operators.core_count(tensor),
        operators.shape_text(tensor),
        operators.device_of(tensor, name),
    )


class GradientSynchronizer(TensorList):
    """A TensorList of (name, tensor) pairs; the tensors give the shapes and dtypes.

    `scaler`: the torch.amp.GradScaler that scales the loss, an object with get_scale(), a function that returns the
    scale, or None. What codecs keep for later steps follows its scale.
    """

    def __init__(
        self,
        named_tensors: Iterable[tuple[str, torch.Tensor]],
        options: SynchronizationOptions | None = None,
        warming_up: WarmingUp | None = None,
        *,
        scaler: Any = None,
        waits: bool = False,
    ) -> None:
        self._scaling = scaling_of(scaler, "GradientSynchronizer(..., scaler=scaler)")
        self._scaling_checked: SynchronizationOptions | None = None
        super().__init__([_described(*each) for each in named_tensors], options, warming_up, waits=waits)

    def extend_by(self, named_tensors: Iterable[tuple[str, torch.Tensor]]) -> None:
        """See TensorList.extend()."""
        self.extend([_described(name, tensor) for name, tensor in named_tensors])

    def restart_with(self, named_tensors: Iterable[tuple[str, torch.Tensor]]) -> None:
        """See TensorList.restart(): goes on with these tensors, which are those of the list."""
        self.restart([_described(name, tensor) for name, tensor in named_tensors])

    def knows_loss_scale(self) -> bool:
        """See TensorList."""
        return self._scaling.is_given or scaler_in_use() is None

    def submit(self, index: int, tensor: torch.Tensor, updates: int = -1) -> int:
        """Starts synchronising the values of the tensor at `index`, in place; returns a handle for `wait()`.

        Returns at once. Do not read or write `tensor` before `wait()`. `updates`: number of steps that this rank has
        taken with earlier results; the operation raises Mismatch if another rank has another number. Below 0: not
        compared.
        Raises InvalidArgument if a codec keeps states and the process scales losses by a scaler that was not given.
        """
        self._follow_scale()
        held_back = self.held_back(index)
        if held_back is not None:
            operators.check_tensor(tensor, self.name(index))
            in_memory_order = as_reals(tensor.detach()).as_strided((operators.core_count(tensor),), (1,))
            in_memory_order.add_(torch.from_numpy(held_back).to(tensor.device))
        operation = self._started(operators.submit_in_place, index, tensor, updates)
        if held_back is not None:
            self.sent_with(operation, index, is_finite=lambda: bool(tensor.isfinite().all()))
        return operation

    def submit_absent(self, index: int, output: torch.Tensor, updates: int = -1) -> int:
        """Takes part without values (absent): `output` receives the result of the other ranks."""
        self._follow_scale()
        return self._started(operators.submit_absent, index, output, updates)

    def _follow_scale(self) -> None:
        """Gives what codecs keep the unit of the gradients of this step."""
        if self._scaling_checked is not self._options:
            if self.keeps_states():
                self._scaling.check()
                if self._scaling.is_given and self._scaling is not UNSCALED:
                    self.settle_by_steps()
            self._scaling_checked = self._options
        self.set_loss_scale(self._scaling.now())

    def _started(self, operator: Callable[..., int], index: int, tensor: torch.Tensor, updates: int) -> int:
        """Calls the operator, which checks the tensor. Only after a refusal does Python look for the reason."""
        declared = self.handle(index)
        if tensor.is_complex() or tensor.is_neg():
            operators.check_tensor(tensor, self.name(index))
            agreed = self.tensors[index]
            if operators.OF_COMPLEX not in agreed.shape:
                raise Mismatch(
                    f"tensor '{self.name(index)}': its element type {tensor.dtype} is not the declared {agreed.dtype}"
                )
            tensor = as_reals(tensor)
        try:
            # A tensor in host memory has no stream: torch takes time to convert each argument.
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
