# SPDX-License-Identifier: Apache-2.0
"""Encodes which elements of each tile are sent: ascending indices as bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipress.torch.tiles.ascending import AscendingCode
from hipress.torch.tiles.layout import Tiles
from hipress.torch.tiles.packing import Bytes


class Chosen:
    """The choice of k elements of each tile. If a tile has at most k elements, the message has no indices."""

    def __init__(self, tiles: Tiles, k: int) -> None:
        self._tiles = tiles
        self.k = min(k, tiles.size)
        self.count = self.k * tiles.count
        self._code = AscendingCode(tiles.count, self.k, tiles.size) if self.k < tiles.size else None
        self.bytes = 0 if self._code is None else self._code.bytes

    def packed(self, index: NDArray[np.integer[Any]]) -> Bytes:
        """`index`: of Tiles.largest()."""
        return np.empty(0, np.uint8) if self._code is None else self._code.packed(index)

    def unpacked(self, packed: Bytes) -> NDArray[np.int64] | None:
        """The indices, [tiles, k]; None: all elements are sent. Raises CorruptPayload."""
        return None if self._code is None else self._code.unpacked(packed)

    def places_of(self, index: NDArray[np.integer[Any]] | None) -> NDArray[np.int64] | slice:
        """Where the elements are among all of Tiles.cut(), flat."""
        if index is None:
            return slice(None)
        return (index + self._tiles.size * np.arange(self._tiles.count)[:, None]).reshape(-1)

    def places(self, packed: Bytes) -> NDArray[np.int64] | slice:
        """places_of() of the indices in `packed`. Raises CorruptPayload."""
        return self.places_of(self.unpacked(packed))
