# SPDX-License-Identifier: Apache-2.0
"""The tensors of a batch that travel without a codec. Those of one element type lie one behind the other."""

from __future__ import annotations

from collections.abc import Sequence

import torch

#: An owner adds these in float32 and rounds once, so they get the average's factor there.
_SUMMED_WIDER = (torch.float16, torch.bfloat16)


class ExactValues:
    """Flat tensors, by their element types."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self.of_type: dict[torch.dtype, list[torch.Tensor]] = {}
        for tensor in tensors:
            self.of_type.setdefault(tensor.dtype, []).append(tensor)

    def joined(self) -> list[torch.Tensor]:
        """New tensors, one for each type."""
        return [torch.cat(tensors) for tensors in self.of_type.values()]

    def put_back(self, joined: Sequence[torch.Tensor]) -> None:
        """Writes what joined() has given into the tensors."""
        for tensors, values in zip(self.of_type.values(), joined, strict=True):
            # One kernel, or few, on a GPU.
            torch._foreach_copy_(tensors, values.split([tensor.numel() for tensor in tensors]))


def has_factor(dtype: torch.dtype) -> bool:
    """Whether values that travel in slots get the factor of the average before the sum, as torch does it: then no sum
    of finite values is too great. See Slot::scaled in the core."""
    return dtype not in _SUMMED_WIDER
