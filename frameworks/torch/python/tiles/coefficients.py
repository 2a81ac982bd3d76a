# SPDX-License-Identifier: Apache-2.0
"""DeMo's message: the largest coefficients of each tile of several tensors."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray

from hipress.errors import CorruptPayload
from hipress.torch.tiles.chosen import Chosen
from hipress.torch.tiles.layout import Tiles
from hipress.torch.tiles.packing import Bytes

#: One tensor's coefficients: indices and values, each of shape [tiles, k]; None: the values are not finite.
Largest = tuple[torch.Tensor, torch.Tensor] | None


class CoefficientMessage:
    """One rank's message: one byte for each tensor, 1 if it is finite; then each tensor's indices and values. A value
    is a float32 or one bit, + for zero. The message's size depends on the shapes alone."""

    def __init__(self, tiles: Mapping[str, Tiles], k: int, *, signs_only: bool) -> None:
        self._tiles = tiles
        self._chosen = {name: Chosen(each, k) for name, each in tiles.items()}
        self._signs_only = signs_only
        self.bytes = len(tiles) + sum(each.bytes + self._value_bytes(each) for each in self._chosen.values())

    def count(self, name: str) -> int:
        """Number of coefficients that a rank sends for each tile of a tensor."""
        return self._chosen[name].k

    def _value_bytes(self, chosen: Chosen) -> int:
        return (chosen.count + 7) // 8 if self._signs_only else 4 * chosen.count

    def encoded(self, largest: Mapping[str, Largest]) -> torch.Tensor:
        """The message's bytes."""
        parts: list[Bytes] = [np.array([each is not None for each in largest.values()], np.uint8)]
        for name, each in largest.items():
            chosen = self._chosen[name]
            if each is None:
                parts.append(np.zeros(chosen.bytes + self._value_bytes(chosen), np.uint8))
                continue
            values = each[1].numpy().reshape(-1)
            parts += [
                chosen.packed(each[0].numpy()),
                np.packbits(values >= 0) if self._signs_only else values.view(np.uint8),
            ]
        return torch.from_numpy(np.concatenate(parts))

    def means(self, messages: torch.Tensor) -> dict[str, torch.Tensor | None]:
        """The mean of each coefficient over the ranks that sent it, as in DeMo, added in rank order; zero if no rank
        sent it. `messages`: shape [ranks, bytes]. None: a rank's values are not finite. Raises CorruptPayload with
        tensor and rank."""
        rows = messages.numpy()
        finite = rows[:, : len(self._tiles)]
        if finite.max(initial=0) > 1:
            raise CorruptPayload("a message of DeMo begins with a byte that is neither 0 nor 1; nothing was applied")
        means: dict[str, torch.Tensor | None] = {}
        first = len(self._tiles)
        for number, (name, chosen) in enumerate(self._chosen.items()):
            last = first + chosen.bytes + self._value_bytes(chosen)
            parts = rows[:, first:last]
            means[name] = self._mean(name, parts) if finite[:, number].all() else None
            first = last
        return means

    def _mean(self, name: str, parts: NDArray[np.uint8]) -> torch.Tensor:
        tiles, chosen = self._tiles[name], self._chosen[name]
        total = np.zeros(tiles.count * tiles.size, np.float32)
        senders = np.zeros(total.size, np.float32)
        for rank, part in enumerate(parts):
            try:
                places = chosen.places(part[: chosen.bytes])
                values = self._values(part[chosen.bytes :], chosen.count)
            except CorruptPayload as error:
                raise CorruptPayload(f"rank {rank}'s coefficients of '{name}': {error}; nothing was applied") from error
            total[places] += values
            senders[places] += 1
        return torch.from_numpy(total / np.maximum(senders, 1)).view(tiles.count, tiles.size)

    def _values(self, packed: Bytes, count: int) -> NDArray[np.float32]:
        if self._signs_only:
            return np.asarray(np.where(np.unpackbits(packed, count=count) == 1, 1, -1), np.float32)
        values: NDArray[np.float32] = packed.copy().view(np.float32)
        if not np.isfinite(values).all():
            raise CorruptPayload("a value is not finite")
        return values
