# SPDX-License-Identifier: Apache-2.0
"""The norm of a tensor, with the same bits on every rank, whatever its processor and its number of threads."""

from __future__ import annotations

import math

import torch

#: Elements of one sum, and bits of a square in it: such a sum is below 2 ** 63.
_CHUNK, _BITS = 1 << 20, 42


def norm(values: torch.Tensor) -> float:
    """The Euclidean norm of float32 values on the CPU, of any shape; NaN if one is NaN, otherwise infinite if one is.

    A sum of floating-point numbers depends on their order, and the order on the processor and its threads. This sum has
    whole numbers: each square, in units of the largest one / 2 ** 42. A square is off by at most half a unit.
    """
    flat = values.detach().reshape(-1)
    largest = float(flat.abs().max())
    if not 0.0 < largest < math.inf:
        return largest
    exponent = math.frexp(largest)[1]
    total = 0
    for part in flat.split(_CHUNK):
        # Squares of float32 numbers are exact in float64, and so are products with powers of two.
        squares = part.double().mul_(math.ldexp(1.0, -exponent)).square_()
        total += int(squares.mul_(math.ldexp(1.0, _BITS)).round_().long().sum())
    return math.ldexp(math.sqrt(total), exponent - _BITS // 2)
