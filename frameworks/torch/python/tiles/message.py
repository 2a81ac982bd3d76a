# SPDX-License-Identifier: Apache-2.0
"""SparseLoCo's message: the largest values of each tile of several tensors. docs/wire-format.md has its bytes."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

import numpy as np
import torch

from hipress.errors import CorruptPayload
from hipress.torch.tiles.kept_code import KeptCode
from hipress.torch.tiles.packing import Bytes
from hipress.torch.tiles.sparse_tensor import SparseTensor, Values

_MAGIC = b"HSL3"
#: Magic, checksum, and the number of coded bytes.
_HEADER, _CHECKED = 12, 8


class SparseMessage:
    """One rank's message about several tensors. Its buffer has `bytes` bytes, which follow from the shapes; bytes
    behind the end of the message are zero."""

    def __init__(self, shapes: Mapping[str, torch.Size], k: int, *, adaptive: bool = True) -> None:
        self._adaptive = adaptive
        self._parts = {name: SparseTensor(shape, k) for name, shape in shapes.items()}
        self._sparse = {name: each for name, each in self._parts.items() if not each.is_raw}
        self._code = KeptCode([each.grid for each in self._sparse.values()])
        self._heads = sum(each.head_bytes for each in self._parts.values())
        self._plain = sum(each.plain_bytes for each in self._sparse.values())
        self.bytes = _HEADER + self._heads + self._plain

    def encoded(self, wanted: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """The buffer, uint8; and the residuals by name, of tensors with finite values only."""
        heads: list[Bytes] = []
        kept: dict[str, Values] = {}
        left: dict[str, torch.Tensor] = {}
        for name, each in self._parts.items():
            head, values, rest = each.encoded(wanted[name])
            heads.append(head)
            if values is not None:
                kept[name] = values
            if rest is not None:
                left[name] = rest
        coded = self._coded(kept)
        body = [each.plain(kept[name]) for name, each in self._sparse.items()] if coded.size == 0 else [coded]
        checked = np.concatenate([np.array([coded.size], "<u4").view(np.uint8), *heads, *body])
        buffer = np.zeros(self.bytes, np.uint8)
        buffer[:4] = np.frombuffer(_MAGIC, np.uint8)
        buffer[4:_CHECKED] = _checksum(checked)
        buffer[_CHECKED : _CHECKED + checked.size] = checked
        return torch.from_numpy(buffer), left

    def _coded(self, kept: Mapping[str, Values]) -> Bytes:
        """Indices and bins in the adaptive code; empty if that takes as many bytes as the plain ones."""
        if not kept or not self._adaptive:
            return np.empty(0, np.uint8)
        indices = [each.index.reshape(-1) for each in kept.values() if each.index is not None]
        bins = np.concatenate([each.bins for each in kept.values()])
        coded = self._code.encoded(np.concatenate([np.empty(0, np.uint16), *indices]), bins)
        return coded if coded.size < self._plain else np.empty(0, np.uint8)

    def averages(self, messages: list[torch.Tensor]) -> dict[str, torch.Tensor]:
        """The averages of all ranks' messages, added in rank order. Raises CorruptPayload with the rank or tensor."""
        heads, kept = [], []
        for rank, each in enumerate(messages):
            try:
                head, body, is_coded = self._checked(each.numpy())
                heads.append(head)
                kept.append(self._kept(body, is_coded=is_coded))
            except CorruptPayload as error:
                raise CorruptPayload(f"SparseLoCo's message of rank {rank} {error}; nothing was applied") from error
        averages, first = {}, 0
        for name, part in self._parts.items():
            last = first + part.head_bytes
            try:
                averages[name] = part.average([each[first:last] for each in heads], [each.get(name) for each in kept])
            except CorruptPayload as error:
                raise CorruptPayload(f"SparseLoCo's values of '{name}': {error}; nothing was applied") from error
            first = last
        return averages

    def _checked(self, buffer: Bytes) -> tuple[Bytes, Bytes, bool]:
        """Heads, body, and whether the body is in the adaptive code."""
        if buffer.size != self.bytes:
            raise CorruptPayload(f"has {buffer.size} bytes and not {self.bytes}")
        if (magic := buffer[:4].tobytes()) != _MAGIC:
            raise CorruptPayload(f"begins with {magic!r} and not with {_MAGIC!r}")
        coded = int(buffer[_CHECKED:_HEADER].view("<u4")[0])
        end = _HEADER + self._heads + (coded or self._plain)
        if end > self.bytes or not np.array_equal(buffer[4:_CHECKED], _checksum(buffer[_CHECKED:end])):
            raise CorruptPayload("does not have its checksum")
        if buffer[end:].any():
            raise CorruptPayload("goes on behind its end")
        body = _HEADER + self._heads
        return buffer[_HEADER:body], buffer[body:end], coded > 0

    def _kept(self, body: Bytes, *, is_coded: bool) -> dict[str, Values]:
        if not is_coded:
            ends = np.cumsum([each.plain_bytes for each in self._sparse.values()])
            parts = np.split(body, ends[:-1]) if self._sparse else []
            return {name: each.unpacked(part) for (name, each), part in zip(self._sparse.items(), parts, strict=True)}
        indices, bins = self._code.decoded(body)
        kept: dict[str, Values] = {}
        for name, each in self._sparse.items():
            kept[name], indices, bins = each.taken(indices, bins)
        return kept


def _checksum(checked: Bytes) -> Bytes:
    return np.array([zlib.crc32(checked.tobytes())], "<u4").view(np.uint8)
