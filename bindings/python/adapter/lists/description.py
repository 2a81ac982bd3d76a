# SPDX-License-Identifier: Apache-2.0
"""What ranks compare of a tensor before they synchronise it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hipress import _core


@dataclass(frozen=True)
class TensorDescription:
    """The properties of a tensor that ranks compare, and the device that holds it on this rank."""

    name: str
    dtype: str
    """"float32", "float64", "float16", "bfloat16", "uint8", "int8", "int16", "int32", "int64" or "bool"."""
    count: int
    """Number of elements."""
    shape: str
    """The shape as text, `str(list(shape))`, followed by the memory order unless it is row-major: ranks combine values
    in memory order.
    """
    device: _core.Device | None = None
    """The engine's device, such as `runtime.current().gpu(0)`; None: host memory."""
    has_gradient: bool = True
    """Whether the tensor has gradients to synchronise; a plan need not name a tensor without gradient."""
