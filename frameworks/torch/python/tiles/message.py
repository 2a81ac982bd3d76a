# SPDX-License-Identifier: Apache-2.0
"""SparseLoCo's message: the largest values of each tile of several tensors. docs/wire-format.md has its bytes."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray

from hipress.errors import CorruptPayload
from hipress.torch.tiles.chosen import Chosen
from hipress.torch.tiles.layout import Tiles
from hipress.torch.tiles.packing import Bytes, bytes_of_2bit, pack_2bit, unpack_2bit
from hipress.torch.tiles.two_bits import BINS, quantized

_MAGIC = b"HSL2"
_HEADER = 8
_LEVELS = 4 * BINS


class SparseTensor:
    """One tensor's part of a message: k values of each tile in 2 bits each, with their indices. If all values as
    float32 are not larger, the part has these instead."""

    def __init__(self, shape: torch.Size, k: int) -> None:
        self._shape = shape
        self._tiles = Tiles(shape)
        self._chosen = Chosen(self._tiles, k)
        self._values = self._chosen.count
        coded = _LEVELS + bytes_of_2bit(self._values) + self._chosen.bytes
        self._is_raw = coded >= 4 * shape.numel()
        self.bytes = 4 * shape.numel() if self._is_raw else coded

    def encoded(self, wanted: torch.Tensor) -> tuple[Bytes, torch.Tensor | None]:
        """The bytes, and the residual of `wanted` (float32). Residual None: `wanted` is not finite, and the receivers
        see it in the bytes."""
        finite = bool(wanted.isfinite().all())
        if self._is_raw:
            raw = wanted.contiguous().numpy().reshape(-1).view(np.uint8)
            return raw, torch.zeros_like(wanted) if finite else None
        if not finite:
            index = torch.arange(self._chosen.k).expand(self._tiles.count, self._chosen.k)
            levels, bins = np.full(BINS, np.nan, np.float32), np.zeros(self._values, np.uint8)
            return self._packed(levels, bins, index), None
        tiles = self._tiles.cut(wanted)
        index = self._tiles.largest(tiles, self._chosen.k)
        filling = self._tiles.filling()
        counted = np.ones(self._values, np.bool_) if filling is None else ~filling.gather(1, index).numpy().reshape(-1)
        levels, bins = quantized(tiles.gather(1, index).numpy().reshape(-1), counted)
        sent = torch.from_numpy(levels[bins]).view(index.shape)
        tiles.scatter_add_(1, index, -sent)
        return self._packed(levels, bins, index), self._tiles.joined(tiles)

    def _packed(self, levels: NDArray[np.float32], bins: Bytes, index: torch.Tensor) -> Bytes:
        return np.concatenate([levels.view(np.uint8), pack_2bit(bins), self._chosen.packed(index)])

    def average(self, parts: list[Bytes]) -> torch.Tensor:
        """The average of all ranks' parts, added in rank order; an index that a rank has not sent counts as zero. If
        values of a rank were not finite, an encoded part gives NaN everywhere. Raises CorruptPayload."""
        share = np.float32(1 / len(parts))
        if self._is_raw:
            total = np.zeros(self._shape.numel(), np.float32)
            for part in parts:
                total += part.copy().view(np.float32)
            return torch.from_numpy(total * share).view(self._shape)
        total = np.zeros(self._tiles.count * self._tiles.size, np.float32)
        for part in parts:
            levels = part[:_LEVELS].copy().view(np.float32)
            if np.isnan(levels).all():
                return torch.full(self._shape, torch.nan)
            if not np.isfinite(levels).all():
                raise CorruptPayload("a bin's mean is not finite")
            bins, index = np.split(part[_LEVELS:], [bytes_of_2bit(self._values)])
            total[self._chosen.places(index)] += levels[unpack_2bit(bins, self._values)]
        return self._tiles.joined(torch.from_numpy(total * share))


class SparseMessage:
    """One rank's message about several tensors; its size follows from their shapes."""

    def __init__(self, shapes: Mapping[str, torch.Size], k: int) -> None:
        self._parts = {name: SparseTensor(shape, k) for name, shape in shapes.items()}
        self.bytes = _HEADER + sum(each.bytes for each in self._parts.values())

    def encoded(self, wanted: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """The bytes, and the residuals by name, of tensors with finite values only."""
        parts: list[Bytes] = []
        left: dict[str, torch.Tensor] = {}
        for name, each in self._parts.items():
            part, rest = each.encoded(wanted[name])
            parts.append(part)
            if rest is not None:
                left[name] = rest
        payload = np.concatenate(parts)
        header = _MAGIC + zlib.crc32(payload.tobytes()).to_bytes(4, "little")
        return torch.from_numpy(np.concatenate([np.frombuffer(header, np.uint8), payload])), left

    def averages(self, messages: list[torch.Tensor]) -> dict[str, torch.Tensor]:
        """The averages of all ranks' messages, added in rank order. Raises CorruptPayload with the rank or tensor."""
        payloads = [self._checked(each.numpy(), rank) for rank, each in enumerate(messages)]
        averages, first = {}, 0
        for name, each in self._parts.items():
            try:
                averages[name] = each.average([payload[first : first + each.bytes] for payload in payloads])
            except CorruptPayload as error:
                raise CorruptPayload(f"SparseLoCo's values of '{name}': {error}; nothing was applied") from error
            first += each.bytes
        return averages

    def _checked(self, message: Bytes, rank: int) -> Bytes:
        problem = None
        if message.size != self.bytes:
            problem = f"has {message.size} bytes and not {self.bytes}"
        elif message[:4].tobytes() != _MAGIC:
            problem = f"begins with {message[:4].tobytes()!r} and not with {_MAGIC!r}"
        elif int.from_bytes(message[4:_HEADER].tobytes(), "little") != zlib.crc32(message[_HEADER:].tobytes()):
            problem = "does not have its checksum"
        if problem is not None:
            raise CorruptPayload(f"SparseLoCo's message of rank {rank} {problem}; nothing was applied")
        return message[_HEADER:]
