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


def reals_of(name: str, tensor: torch.Tensor) -> tuple[torch.dtype, int]:
    """The type and the number of the real numbers in the tensor's memory. Raises InvalidArgument for elements that
    codecs do not take."""
    dtype, count = tensor.dtype, tensor.numel()
    if dtype not in CORE_NAMES:
        dtype, count = dtype.to_real(), 2 * count
        if dtype not in CORE_NAMES:
            raise InvalidArgument(f"tensor '{name}' has elements of type {tensor.dtype}; codecs take floating point")
    if is_lazy(tensor):
        raise InvalidArgument(
            f"tensor '{name}' is a view that torch conjugates or negates lazily, and its memory has other values: give "
            "tensor.resolve_conj().resolve_neg()"
        )
    return dtype, count


def flat_reals(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor's memory as a flat tensor of real numbers. Its values lie there without gaps, in any order."""
    reals = as_reals(tensor.detach())
    return reals.as_strided((reals.numel(),), (1,))
