# SPDX-License-Identifier: Apache-2.0
"""The compressor of plain_torch.py whose codes have a width of their own in each block."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import pad

from benchmarks.codec.block_compressors import blocks_of
from benchmarks.codec.compressors import Compressed, Compressor, Message

_WIDTHS = range(2, 9)
#: Powers of two of the bits of a byte.
_PLACES = 2 ** torch.arange(8, dtype=torch.int32)


class Dynamiq(Compressor):
    """Compresses each block to a bfloat16 scale, and to codes of 2 to 8 bits: more bits for greater scales.

    compll/algorithms/dynamiq.cll is the definition. The compressed form is limit, scales (both int32), codes.
    """

    def __init__(self, bits: float = 5.1, block: int = 64) -> None:
        self.bits, self.block = bits, block

    def compress(self, tensor: Tensor) -> Compressed:
        rows = blocks_of(tensor, self.block)
        least, greatest = rows.amin(1).clamp(max=0), rows.amax(1).clamp(min=0)
        magnitude = (torch.maximum(greatest, -least).view(torch.int32) + 65535 >> 16).clamp(max=32639)
        wish = (32767 - magnitude).unsqueeze(1) + 128 * torch.arange(6, dtype=torch.int32)
        spent = math.floor((self.bits - 2 - 16 / self.block) * len(magnitude))
        limit = wish.view(-1).kthvalue(spent + 1).values
        scale = magnitude + 32768 * (-least > greatest).to(torch.int32)
        step, half = self._steps(limit, scale)
        level = torch.where(scale.unsqueeze(1) > 0, (rows / step).round().maximum(1 - half), torch.zeros(()))
        return limit.view(1), scale, (half - level).to(torch.uint8).view(-1)[: len(tensor)]

    def decompress(self, compressed: Compressed, count: int) -> Tensor:
        limit, scale, code = compressed
        step, half = self._steps(limit, scale)
        return ((half - blocks_of(code, self.block)) * step).view(-1)[:count]

    def pack(self, compressed: Compressed) -> Message:
        limit, scale, code = compressed
        blocks, unused = blocks_of(code, self.block), -len(code) % self.block
        parts = []
        for width, rows in self._rows(limit, scale):
            bits = blocks[rows].unsqueeze(2) >> torch.arange(width, dtype=torch.uint8) & 1
            packed = (bits.view(-1, 8) * _PLACES).sum(1).to(torch.uint8)
            # The last block may have fewer values; its words of 32 bits behind them do not travel.
            has_last = len(rows) > 0 and rows[-1] == len(scale) - 1
            parts.append(packed[: len(packed) - 4 * (unused * width // 32)] if has_last else packed)
        return limit.to(torch.int16), scale.to(torch.int16), *parts

    def unpack(self, message: Message, count: int) -> Compressed:
        limit, scale = (part.to(torch.int32) & 65535 for part in message[:2])
        code = torch.zeros(len(scale), self.block, dtype=torch.uint8)
        for (width, rows), part in zip(self._rows(limit, scale), message[2:], strict=True):
            whole = pad(part, (0, len(rows) * self.block * width // 8 - len(part)))
            bits = whole.unsqueeze(1) >> torch.arange(8, dtype=torch.uint8) & 1
            code[rows] = (bits.view(-1, self.block, width) * _PLACES[:width]).sum(2).to(torch.uint8)
        return limit, scale, code.view(-1)[:count]

    def _rows(self, limit: Tensor, scale: Tensor) -> list[tuple[int, Tensor]]:
        """For each width, which blocks have it."""
        found = self._width(limit, scale)
        return [(width, (found == width).nonzero().view(-1)) for width in _WIDTHS]

    @staticmethod
    def _width(limit: Tensor, scale: Tensor) -> Tensor:
        return 2 + ((scale & 32767) + limit - 32640 >> 7).clamp(0, 6)

    def _steps(self, limit: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        """As columns: the distance of two levels, and half the number of codes, of each block."""
        half = (1 << self._width(limit, scale) - 1).float()
        return ((scale << 16).view(torch.float32) / half).unsqueeze(1), half.unsqueeze(1)
