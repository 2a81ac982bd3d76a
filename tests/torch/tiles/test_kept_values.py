# SPDX-License-Identifier: Apache-2.0
"""The core's code of indices and bins: what it refuses, and that no bytes lead out of the tiles."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from hipress import _core
from hipress.errors import CorruptPayload, InvalidArgument

#: Three tiles beside each other; one of one row, of which all but one element are sent; one that is sent whole.
GRIDS = [(6, 3, 64, 64, 64), (2, 1, 1, 10, 9), (1, 1, 8, 8, 64)]
INDICES, BINS = 6 * 64 + 2 * 9, 6 * 64 + 2 * 9 + 64


def _numbers(seed: int, dense: bool = False) -> tuple[NDArray[np.uint16], NDArray[np.uint8]]:
    generator = np.random.default_rng(seed)
    rows = [generator.choice(4096, 64, replace=False) if not dense else np.arange(64) * 64 for _ in range(6)]
    rows += [generator.choice(10, 9, replace=False) for _ in range(2)]
    return np.concatenate([np.sort(row) for row in rows]).astype(np.uint16), generator.integers(0, 4, BINS, np.uint8)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("dense", [False, True], ids=["random", "one column"])
def test_numbers_come_back(seed: int, dense: bool) -> None:
    indices, bins = _numbers(seed, dense)
    coded = _core.encode_kept(GRIDS, indices, bins)
    back = _core.decode_kept(GRIDS, coded)
    assert np.array_equal(back[0], indices)
    assert np.array_equal(back[1], bins)
    # Whole columns are learned, single elements are not.
    assert (len(coded) < 350) == dense


def test_any_bytes_are_values_of_the_tiles_or_refused() -> None:
    generator = np.random.default_rng(0)
    good = _core.encode_kept(GRIDS, *_numbers(0))
    refused = 0
    for trial in range(300):
        size = int(generator.integers(0, 800))
        data = generator.bytes(size) if trial % 2 else good[: trial % len(good)] + generator.bytes(trial % 7)
        data = [bytes(size), b"\xff" * size][trial // 10] if trial < 20 else data
        try:
            indices, bins = _core.decode_kept(GRIDS, data)
        except CorruptPayload:
            refused += 1
            continue
        assert bins.max() < 4
        at = 0
        for tiles, _, height, width, kept in GRIDS[:2]:
            rows = indices[at : at + tiles * kept].reshape(tiles, kept).astype(int)
            assert rows.max() < height * width
            assert (np.diff(rows) > 0).all()
            at += rows.size
    assert refused > 250


@pytest.mark.parametrize(
    ("grids", "place", "value", "message"),
    [
        (GRIDS, 0, 4096, "do not ascend, or are not below 4096"),
        (GRIDS, 5, 0, "do not ascend, or are not below 4096"),
        (GRIDS, INDICES - 1, 10, "do not ascend, or are not below 10"),
        (GRIDS[:1], None, 0, "the tiles have 384 indices and 384 values, given are 402 and 466"),
        ([(6, 4, 64, 64, 64), *GRIDS[1:]], None, 0, "4 of 6 beside each other, do not exist"),
        ([(6, 0, 64, 64, 64), *GRIDS[1:]], None, 0, "0 of 6 beside each other, do not exist"),
        ([(6, 3, 65, 64, 64), *GRIDS[1:]], None, 0, "tiles of 65 × 64 elements"),
        ([(6, 3, 2**16, 2**16, 64), *GRIDS[1:]], None, 0, "tiles of 65536 × 65536 elements"),
        ([(6, 3, 7, 9, 64), *GRIDS[1:]], None, 0, "of which 64 are sent"),
    ],
)
def test_other_numbers_are_refused(
    grids: list[tuple[int, int, int, int, int]], place: int | None, value: int, message: str
) -> None:
    indices, bins = _numbers(0)
    if place is not None:
        indices[place] = value
    with pytest.raises(InvalidArgument, match=message):
        _core.encode_kept(grids, indices, bins)


def test_a_bin_has_two_bits() -> None:
    indices, bins = _numbers(0)
    bins[7] = 4
    with pytest.raises(InvalidArgument, match="bin is not 0 to 3"):
        _core.encode_kept(GRIDS, indices, bins)
