# SPDX-License-Identifier: Apache-2.0
"""Indices and bins of several tensors in the core's adaptive code, on several threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from hipress import _core
from hipress.errors import CorruptPayload
from hipress.torch.tiles.packing import Bytes

#: Elements that one thread codes alone, about 25 ms. The code learns anew for each stretch.
STRETCH = 1 << 22
#: Tiles, tiles beside each other, height and width of a tile, elements of it that are sent.
Grid: TypeAlias = tuple[int, int, int, int, int]
_Given = TypeVar("_Given")
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class _Stretch:
    grids: list[Grid]
    indices: slice
    """Of those of all tensors."""
    bins: slice


class KeptCode:
    """`grids`: of the tensors. Tensors, and rows of tiles of large tensors, are put together up to STRETCH elements."""

    def __init__(self, grids: Sequence[Grid]) -> None:
        stretches: list[list[Grid]] = []
        room = 0
        for tiles, across, height, width, kept in grids:
            rows, row = tiles // across, across * height * width
            while rows > 0:
                if room < row:
                    stretches.append([])
                    room = max(STRETCH, row)
                taken = min(rows, room // row)
                stretches[-1].append((taken * across, across, height, width, kept))
                rows, room = rows - taken, room - taken * row
        self._stretches: list[_Stretch] = []
        index = bin_ = 0
        for each in stretches:
            values = sum(tiles * kept for tiles, _, _, _, kept in each)
            placed = sum(tiles * kept for tiles, _, height, width, kept in each if kept < height * width)
            self._stretches.append(_Stretch(each, slice(index, index + placed), slice(bin_, bin_ + values)))
            index, bin_ = index + placed, bin_ + values

    def encoded(self, indices: NDArray[np.uint16], bins: Bytes) -> Bytes:
        """The sizes of all stretches but the last one, then their bytes."""
        streams = _each(lambda one: _core.encode_kept(one.grids, indices[one.indices], bins[one.bins]), self._stretches)
        sizes = np.array([len(each) for each in streams[:-1]], "<u4").tobytes()
        return np.frombuffer(sizes + b"".join(streams), np.uint8)

    def decoded(self, body: Bytes) -> tuple[NDArray[np.uint16], Bytes]:
        """Indices and bins. Raises CorruptPayload."""
        last = len(self._stretches) - 1
        if body.size < 4 * last:
            raise CorruptPayload("ends before its first value")
        sizes, streams = body[: 4 * last], body[4 * last :]
        ends = np.cumsum(sizes.copy().view("<u4"), dtype=np.int64)
        if last > 0 and ends[-1] > streams.size:
            raise CorruptPayload("ends before its last value")
        parts = np.split(streams, ends)
        given = [(one.grids, part) for one, part in zip(self._stretches, parts, strict=True)]
        decoded = _each(lambda one: _core.decode_kept(*one), given)
        return np.concatenate([each[0] for each in decoded]), np.concatenate([each[1] for each in decoded])


def _each(function: Callable[[_Given], _Result], given: list[_Given]) -> list[_Result]:
    if len(given) == 1:
        return [function(given[0])]
    with ThreadPoolExecutor(min(len(given), os.cpu_count() or 1)) as pool:
        return list(pool.map(function, given))
