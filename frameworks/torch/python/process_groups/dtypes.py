# SPDX-License-Identifier: Apache-2.0
"""The element types that a compressed average takes. A complex tensor travels as pairs of real numbers."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from hipress.errors import InvalidArgument
from hipress.torch.reals import as_reals, is_lazy

#: With the core's names for them.
CORE_NAMES = {
    torch.float32: "float32",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.float64: "float64",
}


@dataclass(frozen=True)
class TensorShape:
    """What all ranks know about a tensor."""

    count: int
    """Elements; of a complex tensor twice as many."""
    dtype: torch.dtype
    """Of its elements; of a complex tensor that of their real parts."""
    dimensions: int
    rows: int = 0
    """The first dimension, for codec "powersgd"; 0: the tensor is no matrix."""


def shape_of(tensor: torch.Tensor, *, rows: int = 0) -> TensorShape:
    """The shape as which a tensor of any type travels."""
    parts = 2 if tensor.is_complex() else 1
    return TensorShape(parts * tensor.numel(), tensor.dtype.to_real(), tensor.dim(), rows)


def flat_reals(name: str, tensor: torch.Tensor) -> torch.Tensor:
    """The tensor's memory as a flat tensor of real numbers. Its values lie there without gaps, in any order.

    Raises InvalidArgument for elements that codecs do not take.
    """
    if tensor.dtype.to_real() not in CORE_NAMES:
        raise InvalidArgument(f"tensor '{name}' has elements of type {tensor.dtype}; codecs take floating point")
    if is_lazy(tensor):
        raise InvalidArgument(
            f"tensor '{name}' is a view that torch conjugates or negates lazily, and its memory has other values: give "
            "tensor.resolve_conj().resolve_neg()"
        )
    return as_reals(tensor.detach()).as_strided((shape_of(tensor).count,), (1,))
