# SPDX-License-Identifier: Apache-2.0
"""One tensor's part of SparseLoCo's message."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from hipress.errors import CorruptPayload
from hipress.torch.tiles.chosen import Chosen
from hipress.torch.tiles.kept_code import Grid
from hipress.torch.tiles.layout import Tiles
from hipress.torch.tiles.packing import Bytes, bytes_of_2bit, pack_2bit, unpack_2bit
from hipress.torch.tiles.two_bits import BINS, quantized

_LEVELS = 2 * BINS


@dataclass(frozen=True)
class Values:
    """The values that a rank sends: `index`, [tiles, k], uint16 or int64; None: all of each tile. `bins`: flat."""

    index: NDArray[np.uint16] | NDArray[np.int64] | None
    bins: Bytes


class SparseTensor:
    """k values of each tile, with 2 bits, and where they are; or all its values as float32, if that is not larger.

    Its head has the four levels as bfloat16, or the float32 values.
    """

    def __init__(self, shape: torch.Size, k: int) -> None:
        self._shape = shape
        self._tiles = Tiles(shape)
        self._chosen = Chosen(self._tiles, k)
        self._values = self._chosen.count
        self.plain_bytes = bytes_of_2bit(self._values) + self._chosen.bytes
        self.is_raw = _LEVELS + self.plain_bytes >= 4 * shape.numel()
        self.head_bytes = 4 * shape.numel() if self.is_raw else _LEVELS

    @property
    def grid(self) -> Grid:
        """As KeptCode takes it."""
        tiles = self._tiles
        return tiles.count, tiles.across, tiles.height, tiles.width, self._chosen.k

    def encoded(self, wanted: torch.Tensor) -> tuple[Bytes, Values | None, torch.Tensor | None]:
        """The head; the values, unless the head has them all; and the rest of `wanted` (float32), which is not sent.

        The rest is None if `wanted` is not finite. The levels of such a message are NaN.
        """
        finite = bool(wanted.isfinite().all())
        if self.is_raw:
            raw = wanted.contiguous().numpy().reshape(-1).view(np.uint8)
            return raw, None, torch.zeros_like(wanted) if finite else None
        if not finite:
            index = torch.arange(self._chosen.k).expand(self._tiles.count, self._chosen.k)
            levels = torch.full((BINS,), torch.nan, dtype=torch.bfloat16)
            return _bytes_of(levels), self._sent(index, np.zeros(self._values, np.uint8)), None
        tiles = self._tiles.cut(wanted)
        index = self._tiles.largest(tiles, self._chosen.k)
        filling = self._tiles.filling()
        counted = np.ones(self._values, np.bool_) if filling is None else ~filling.gather(1, index).numpy().reshape(-1)
        levels, bins = quantized(tiles.gather(1, index).numpy().reshape(-1), counted)
        sent = levels.float()[torch.from_numpy(bins).long()].view(index.shape)
        tiles.scatter_add_(1, index, -sent)
        return _bytes_of(levels), self._sent(index, bins), self._tiles.joined(tiles)

    def _sent(self, index: torch.Tensor, bins: Bytes) -> Values:
        return Values(index.numpy().astype(np.uint16) if self._chosen.bytes else None, bins)

    def plain(self, values: Values) -> Bytes:
        """`plain_bytes` bytes: the bins, then the indices in Elias and Fano's code."""
        bins = pack_2bit(values.bins)
        return bins if values.index is None else np.concatenate([bins, self._chosen.packed(values.index)])

    def unpacked(self, plain: Bytes) -> Values:
        """See plain(). Raises CorruptPayload."""
        bins, index = np.split(plain, [bytes_of_2bit(self._values)])
        return Values(self._chosen.unpacked(index), unpack_2bit(bins, self._values))

    def taken(self, indices: NDArray[np.uint16], bins: Bytes) -> tuple[Values, NDArray[np.uint16], Bytes]:
        """Its values, the first ones of what several tensors have; and the others' indices and bins."""
        count = self._values if self._chosen.bytes else 0
        index = indices[:count].reshape(self._tiles.count, self._chosen.k) if count else None
        return Values(index, bins[: self._values]), indices[count:], bins[self._values :]

    def average(self, heads: list[Bytes], values: list[Values | None]) -> torch.Tensor:
        """Of all ranks' heads and values, added in rank order; an index that a rank has not sent counts as zero.

        NaN throughout if values of a rank were not finite. Raises CorruptPayload.
        """
        share = np.float32(1 / len(heads))
        if self.is_raw:
            total = np.zeros(self._shape.numel(), np.float32)
            for head in heads:
                total += head.copy().view(np.float32)
            return torch.from_numpy(total * share).view(self._shape)
        total = np.zeros(self._tiles.count * self._tiles.size, np.float32)
        for head, each in zip(heads, values, strict=True):
            levels = torch.from_numpy(head.copy()).view(torch.bfloat16).float().numpy()
            if np.isnan(levels).all():
                return torch.full(self._shape, torch.nan)
            if not np.isfinite(levels).all():
                raise CorruptPayload("a bin's mean is not finite")
            assert each is not None
            total[self._chosen.places_of(each.index)] += levels[each.bins]
        return self._tiles.joined(torch.from_numpy(total * share))


def _bytes_of(levels: torch.Tensor) -> Bytes:
    return levels.view(torch.uint8).numpy()
