# SPDX-License-Identifier: Apache-2.0
"""What error feedback held back when its codec was replaced by one without error feedback."""

from __future__ import annotations

import torch


class HeldBack:
    """Values of tensors, by index, that join the tensor's next values: then nothing that was dropped is lost."""

    def __init__(self) -> None:
        self._values: dict[int, torch.Tensor] = {}  # flat, in memory order
        self._sent: dict[int, tuple[int, torch.Tensor, torch.Tensor]] = {}  # operation → index, values, tensor

    def keep(self, index: int, values: torch.Tensor) -> None:
        """`values` (float32, flat, in memory order) wait for the tensor at `index`, with what waits already."""
        earlier = self._values.get(index)
        self._values[index] = values if earlier is None else earlier + values

    def add_to(self, index: int, tensor: torch.Tensor) -> bool:
        """Adds what waits for the dense `tensor` at `index`; whether anything did."""
        if index not in self._values:
            return False
        in_memory_order = tensor.detach().as_strided((tensor.numel(),), (1,))
        in_memory_order.add_(self._values[index].to(tensor.device))
        return True

    def sent_with(self, operation: int, index: int, tensor: torch.Tensor) -> None:
        """They are on their way in `operation`, whose result `tensor` receives."""
        self._sent[operation] = (index, self._values.pop(index), tensor)

    def arrived(self, operation: int) -> None:
        """`operation` has ended well. If its result is not finite, nobody will use it: the values wait again."""
        if operation in self._sent:
            index, values, tensor = self._sent.pop(operation)
            if not bool(tensor.isfinite().all()):
                self.keep(index, values)
