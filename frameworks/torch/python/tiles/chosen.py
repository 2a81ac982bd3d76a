# SPDX-License-Identifier: Apache-2.0
"""Which elements of each tile are sent, as bytes: ascending indices of 12 bits."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from hipress.errors import CorruptPayload
from hipress.torch.tiles.layout import Tiles
from hipress.torch.tiles.packing import Bytes, bytes_of_12bit, pack_12bit, unpack_12bit


class Chosen:
    """k elements of each tile, or all, which need no indices."""

    def __init__(self, tiles: Tiles, k: int) -> None:
        self._tiles = tiles
        self.k = min(k, tiles.size)
        self.count = self.k * tiles.count
        self._indexed = self.k < tiles.size
        self.bytes = bytes_of_12bit(self.count) if self._indexed else 0

    def packed(self, index: torch.Tensor) -> Bytes:
        """`index`: of Tiles.largest()."""
        return pack_12bit(index.numpy().reshape(-1)) if self._indexed else np.empty(0, np.uint8)

    def places(self, packed: Bytes) -> NDArray[np.int64] | slice:
        """Where the elements are among all of Tiles.cut(), flat. Raises CorruptPayload."""
        if not self._indexed:
            return slice(None)
        index = unpack_12bit(packed, self.count).reshape(self._tiles.count, self.k)
        # Each element once: an element that came twice would get one of its two values only.
        if index.max(initial=0) >= self._tiles.size or not (np.diff(index, axis=1) > 0).all():
            raise CorruptPayload(f"the indices of a tile do not ascend, or are not below {self._tiles.size}")
        return (index + self._tiles.size * np.arange(self._tiles.count)[:, None]).reshape(-1)
