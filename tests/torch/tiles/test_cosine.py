# SPDX-License-Identifier: Apache-2.0
"""The cosine transform of tiles equals SciPy's, and the signs of its inverse do not depend on the order of
additions."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hipress.torch.tiles.cosine import Cosines, basis
from hipress.torch.tiles.layout import Tiles

SHAPES = [(64, 64), (128, 70), (97,), (5, 3), (1,), (9, 64)]


def _tiles(shape: tuple[int, ...]) -> tuple[Tiles, torch.Tensor]:
    tiles = Tiles(torch.Size(shape))
    values = torch.from_numpy(np.asarray(np.random.default_rng(1).standard_normal(shape), np.float32))
    return tiles, tiles.cut(values)


@pytest.mark.parametrize("length", [1, 2, 3, 33, 64])
def test_the_basis_is_orthonormal(length: int) -> None:
    rows = basis(length)
    torch.testing.assert_close(rows @ rows.T, torch.eye(length, dtype=torch.float64), rtol=0, atol=1e-12)
    # This is the definition of DCT-II.
    for frequency in {0, 1, length - 1} & set(range(length)):
        norm = np.sqrt((1 if frequency == 0 else 2) / length)
        wanted = [norm * np.cos(np.pi * (2 * n + 1) * frequency / (2 * length)) for n in range(length)]
        np.testing.assert_allclose(rows[frequency].numpy(), wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_inverse_gives_the_tiles_back(shape: tuple[int, ...]) -> None:
    tiles, cut = _tiles(shape)
    cosines = Cosines(tiles)
    torch.testing.assert_close(cosines.inverse(cosines.forward(cut)), cut, rtol=0, atol=1e-5)


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_signs_are_those_of_the_inverse(shape: tuple[int, ...], scale: float) -> None:
    tiles, cut = _tiles(shape)
    # The tiles have values of very different magnitudes, and each tile has one exponent.
    coefficients = cut * scale * 10.0 ** -torch.arange(tiles.count)[:, None]
    down, across = basis(tiles.height), basis(tiles.width)
    exact = down.T @ coefficients.double().view(tiles.count, tiles.height, tiles.width) @ across
    exact = exact.reshape(coefficients.shape)
    clear = exact.abs() > 1e-5 * exact.abs().amax(1, keepdim=True)
    assert clear.float().mean() > 0.99
    signs = Cosines(tiles).inverse_signs(coefficients)
    assert torch.equal(signs[clear], exact.sign().float()[clear])


def test_the_signs_do_not_depend_on_the_order_of_additions(monkeypatch: pytest.MonkeyPatch) -> None:
    tiles, cut = _tiles((64, 64))
    cosines = Cosines(tiles)
    wanted = cosines.inverse_signs(cut)
    order = torch.randperm(64, generator=torch.Generator().manual_seed(0))

    def shuffled(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        total = torch.zeros(*one.shape[:-1], other.shape[-1], dtype=one.dtype)
        for place in order:
            total = total + one[..., :, place, None] * other[..., None, place, :]
        return total

    monkeypatch.setattr(torch.Tensor, "__matmul__", shuffled)
    assert torch.equal(cosines.inverse_signs(cut), wanted)


def test_zeros_have_no_sign() -> None:
    tiles = Tiles(torch.Size((64, 128)))
    coefficients = torch.zeros(2, 4096)
    coefficients[1, 0] = 1e-40
    signs = Cosines(tiles).inverse_signs(coefficients)
    assert not signs[0].any()
    assert (signs[1] == 1).all()
