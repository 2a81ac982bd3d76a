# SPDX-License-Identifier: Apache-2.0
"""The cosine transform (DCT-II, orthonormal) of tiles, and the signs of its inverse, which every processor computes
with the same bits.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from hipress.torch.tiles.layout import Tiles

#: Bits of the whole numbers for a coefficient and for an element of the basis. A row of the basis has norm 1 and at
#: most 64 elements, so a sum of products is below 2^(25 + 24 + 3): float64 holds every partial sum exactly.
_VALUE_BITS, _BASIS_BITS, _GROWTH_BITS = 25, 24, 3


def basis(length: int) -> torch.Tensor:
    """The matrix of the transform, shape [frequency, element], float64."""
    element, frequency = torch.arange(length, dtype=torch.float64), torch.arange(length, dtype=torch.float64)
    rows = torch.cos(math.pi / length * (element + 0.5) * frequency[:, None]) * math.sqrt(2 / length)
    rows[0] = math.sqrt(1 / length)
    return rows


def whole_basis(length: int) -> torch.Tensor:
    """basis() in units of 2^-24, rounded to whole numbers."""
    return torch.round(basis(length) * 2.0**_BASIS_BITS)


class Cosines:
    """The transform over both dimensions of the tiles of one tensor."""

    def __init__(self, tiles: Tiles) -> None:
        self._shape = (tiles.count, tiles.height, tiles.width)
        self._down, self._across = basis(tiles.height).float(), basis(tiles.width).float()
        self._whole_down, self._whole_across = whole_basis(tiles.height), whole_basis(tiles.width)

    def forward(self, tiles: torch.Tensor) -> torch.Tensor:
        """The coefficients of tiles, in and out of shape [tiles, size] as Tiles.cut() returns, float32."""
        return (self._down @ tiles.view(self._shape) @ self._across.T).reshape(tiles.shape)

    def inverse(self, coefficients: torch.Tensor) -> torch.Tensor:
        """The tiles that have these coefficients."""
        return (self._down.T @ coefficients.view(self._shape) @ self._across).reshape(coefficients.shape)

    def inverse_signs(self, coefficients: torch.Tensor) -> torch.Tensor:
        """The sign (1, 0 or -1) of each element of the inverse, with the same bits on every processor.

        Libraries add the products of a matrix product in different orders, so the sign of a sum near 0 may differ. Sums
        of whole numbers do not differ: coefficients become 25-bit numbers with one exponent for each tile.
        """
        # NumPy's frexp and ldexp change the exponent only; torch.ldexp() multiplies by a power.
        exponent = np.frexp(coefficients.abs().amax(dim=1, keepdim=True).numpy())[1]
        scaled = np.ldexp(coefficients.double().numpy(), _VALUE_BITS - exponent)
        whole = torch.from_numpy(np.rint(scaled)).view(self._shape)
        half_way = self._whole_down.T @ whole
        half_way = torch.round(half_way * 2.0 ** -(_BASIS_BITS + _GROWTH_BITS))
        return (half_way @ self._whole_across).sign().float().reshape(coefficients.shape)
