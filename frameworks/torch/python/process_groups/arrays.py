# SPDX-License-Identifier: Apache-2.0
"""Tensors of the processor as the core takes them."""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray


def array_of(tensor: torch.Tensor) -> NDArray[Any]:
    """The memory of a flat tensor; int16 stands for bfloat16, which NumPy does not have."""
    array: NDArray[Any] = (tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor).numpy()
    return array
