# SPDX-License-Identifier: Apache-2.0
"""Every step of DeMo equals the step of decoupled momentum (Peng et al., 2024, and its authors' code), replayed in
NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hipress.errors import CorruptPayload
from hipress.torch.optim import DeMo
from hipress.torch.tiles.coefficients import CoefficientMessage
from hipress.torch.tiles.layout import Tiles
from tests.torch.optim import problem
from tests.torch.ranks import run
from tests.torch.tiles import plain

STEPS = 6
OPTIONS: dict[str, Any] = {"lr": 0.01, "decay": 0.95, "weight_decay": 0.1}


def _cosines(length: int) -> Any:
    n, k = np.meshgrid(np.arange(length), np.arange(length))
    rows = np.sqrt(2 / length) * np.cos(np.pi * (2 * n + 1) * k / (2 * length))
    rows[0] = np.sqrt(1 / length)
    return rows


def _filled_tiles(shape: tuple[int, ...]) -> tuple[list[Any], tuple[int, int]]:
    """The flat indices of each tile, and the shape of the first tile, which is the largest."""
    found = list(plain.tiles(shape))
    columns = int(np.prod(shape)) // (shape[0] if len(shape) > 1 else 1)
    rows = sorted({int(each) // columns for each in found[0]})
    return found, (len(rows), len(found[0]) // len(rows))


def _tile(flat: Any, tile: Any, shape: tuple[int, int], columns: int) -> tuple[Any, tuple[Any, Any]]:
    """One tile with zeros where it was cut off, and the places of its elements in it."""
    down, across = tile // columns, tile % columns
    places = (down - down.min(), across - across.min())
    result = np.zeros(shape)
    result[places] = flat[tile]
    return result, places


def replayed(world: int, k: int, signs_only: bool, steps: list[problem.Values]) -> tuple[list[problem.Values], float]:
    """The parameters after each step, and the share of elements whose sign is unclear.

    An inverse transform that is 0 except for rounding has no clear sign. The replay then takes the sign of `steps`,
    which is DeMo's own result.
    """
    unclear = 0
    x, f = problem.start(), np.float32
    delta = [{name: np.zeros_like(each) for name, each in x.items()} for _ in range(world)]
    history = []
    for step in range(1, STEPS + 1):
        for name in x:
            shape = x[name].shape
            columns = x[name].size // (shape[0] if len(shape) > 1 else 1)
            tiles, edges = _filled_tiles(shape)
            down, across = _cosines(edges[0]), _cosines(edges[1])
            for rank, own in enumerate(delta):
                gradient = problem.gradient(name, x[name], rank, step)
                own[name] = f(OPTIONS["decay"]) * own[name] + f(OPTIONS["lr"]) * gradient
            signs = np.zeros(x[name].size, np.float32)
            for tile in tiles:
                total, senders = np.zeros(edges), np.zeros(edges)
                for own in delta:
                    values, places = _tile(own[name].reshape(-1), tile, edges, columns)
                    coefficients = down @ values @ across.T
                    order = np.argsort(-np.abs(coefficients), axis=None, kind="stable")[:k]
                    chosen = np.unravel_index(order, edges)
                    kept = np.zeros(edges)
                    kept[chosen] = coefficients[chosen]
                    total[chosen] += np.where(coefficients[chosen] >= 0, 1, -1) if signs_only else coefficients[chosen]
                    senders[chosen] += 1
                    rest = own[name].reshape(-1)
                    rest[tile] -= (down.T @ kept @ across)[places].astype(np.float32)
                    own[name] = rest.reshape(shape)
                mean = total / np.maximum(senders, 1)
                inverse = down.T @ mean @ across
                inverse[np.abs(inverse) < 1e-6 * np.abs(inverse).max()] = np.nan
                signs[tile] = np.sign(inverse[places])
            decayed = x[name] * f(1 - OPTIONS["lr"] * OPTIONS["weight_decay"])
            theirs = np.rint((decayed - steps[step - 1][name]) / OPTIONS["lr"]).reshape(-1)
            unclear += int(np.isnan(signs).sum())
            signs = np.where(np.isnan(signs) & (np.abs(theirs) <= 1), theirs, signs).astype(np.float32)
            x[name] = decayed - f(OPTIONS["lr"]) * signs.reshape(shape)
        history.append(dict(x))
    return history, unclear / sum(each.size for each in x.values()) / STEPS


def _history(folder: str, k: int, signs_only: bool) -> tuple[list[problem.Values], int]:
    with problem.carried(folder) as (rank, carrier):
        named = problem.parameters()
        optimizer = DeMo(named.items(), **OPTIONS, k=k, quantize_1bit=signs_only, **carrier)
        history = []
        for step in range(1, STEPS + 1):
            problem.step(optimizer, named, rank, step)
            history.append(problem.values_of(named))
        sent = optimizer.sent_bytes if folder else 0
        del optimizer
        return history, sent


@pytest.mark.slow
@pytest.mark.parametrize(
    ("world", "carrier", "k", "signs_only"), [(2, "engine", 32, False), (4, "group", 4, True)], ids=["DeMo", "DisTrO"]
)
def test_every_step_is_that_of_the_paper(world: int, carrier: str, k: int, signs_only: bool, tmp_path: Path) -> None:
    ranks = run(_history, world, str(tmp_path) if carrier == "group" else "", k, signs_only)
    expected, unclear = replayed(world, k, signs_only, ranks[0][0])
    assert unclear < 1e-3
    for step, wanted in enumerate(expected):
        for name, each in wanted.items():
            for history, _ in ranks:
                assert np.array_equal(history[step][name], ranks[0][0][step][name])
            np.testing.assert_allclose(ranks[0][0][step][name], each, rtol=0, atol=1e-5, err_msg=f"{name}, step {step}")
    if carrier == "group":
        # The numbers and sizes of the tiles of "large", "odd", "vector" and "small". The parameter "one" has one
        # element, so it needs no index.
        tiles = ((20, 60 * 60), (4, 7 * 49), (18, 62), (1, 7))
        one = len(problem.SHAPES) + sum(plain.index_bytes(count, k, size) + -(-count * k // 8) for count, size in tiles)
        assert all(sent == STEPS * (world - 1) * (one + 1) for _, sent in ranks)


def _message() -> tuple[CoefficientMessage, torch.Tensor]:
    tiles = {"matrix": Tiles(torch.Size((9, 11))), "vector": Tiles(torch.Size((2,)))}
    message = CoefficientMessage(tiles, 4, signs_only=False)
    largest = {
        "matrix": (torch.tensor([[0, 1, 5, 98]]), torch.tensor([[1.0, -2.0, 3.0, 4.0]])),
        "vector": (torch.tensor([[0, 1]]), torch.tensor([[5.0, 6.0]])),
    }
    return message, message.encoded(largest)


def test_each_coefficient_is_the_mean_of_its_senders() -> None:
    message, one = _message()
    other = message.encoded({"matrix": (torch.tensor([[1, 2, 5, 7]]), torch.ones(1, 4)), "vector": None})
    means = message.means(torch.stack([one, other]))
    matrix = means["matrix"]
    assert matrix is not None
    assert matrix[0, [0, 1, 2, 5, 7, 98]].tolist() == [1.0, -0.5, 1.0, 2.0, 1.0, 4.0]
    assert int(matrix.count_nonzero()) == 6
    assert means["vector"] is None  # a rank has a value that is not finite


@pytest.mark.parametrize(
    ("place", "bytes_there", "message"),
    [
        (0, [2], "neither 0 nor 1"),
        (2, [0, 0], r"rank 1's coefficients of 'matrix': the indices of a tile do not ascend"),
        (3, [0x35], "are not below 99"),
        (4, [0b11], "a tile has not 4 indices"),
        (2 + 4, [0, 0, 0x80, 0x7F], "'matrix': a value is not finite"),
    ],
)
def test_altered_bytes_are_refused(place: int, bytes_there: list[int], message: str) -> None:
    codec, good = _message()
    bad = good.clone()
    bad[place : place + len(bytes_there)] = torch.tensor(bytes_there, dtype=torch.uint8)
    with pytest.raises(CorruptPayload, match=message):
        codec.means(torch.stack([good, bad]))
