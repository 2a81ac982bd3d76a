# SPDX-License-Identifier: Apache-2.0
"""The compressors of plain_torch.py with one scale for the values of a block, and the compressors of single values."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor
from torch.nn.functional import pad

from benchmarks.codec.compressors import Compressed, Compressor, Message, Quantizer, pack_bits, unpack_bits


def blocks_of(tensor: Tensor, block: int) -> Tensor:
    """The tensor as rows of `block` values; zeros fill the last row."""
    return pad(tensor, (0, -len(tensor) % block)).view(-1, block)


class BlockQuantizer(Quantizer):
    """Compresses a tensor to one scale for each block, and one code for each value."""

    #: Whether a scale is a mean over the values of its block.
    is_mean = False

    def __init__(self, bits: int, block: int) -> None:
        super().__init__(bits)
        self.block = block

    @abstractmethod
    def scales(self, rows: Tensor) -> Tensor:
        """The scale of each row, as a column."""

    @abstractmethod
    def codes(self, scaled: Tensor) -> Tensor:
        """The codes (uint8) of values that are divided by their scale."""

    @abstractmethod
    def values(self, codes: Tensor) -> Tensor:
        """The inverse of `codes`."""

    def compress(self, tensor: Tensor) -> Compressed:
        rows = blocks_of(tensor, self.block)
        scale = self.scales(rows)
        # The zeros that fill the last row have no part in its mean.
        if self.is_mean:
            scale[-1] *= self.block / (self.block - rows.numel() + len(tensor))
        scaled = torch.where(scale > 0, rows / scale, torch.zeros(()))
        return scale, self.codes(scaled).view(-1)[: len(tensor)]

    def decompress(self, compressed: Compressed, count: int) -> Tensor:
        scale, code = compressed
        return (blocks_of(self.values(code), self.block) * scale).view(-1)[:count]


class Integers(BlockQuantizer):
    """Compresses values to integers of `bits` bits; the greatest magnitude of a block gets the greatest integer."""

    def __init__(self, bits: int, block: int = 256, stochastic: bool = False) -> None:
        super().__init__(bits, block)
        self.most = 2 ** (bits - 1) - 1
        self.stochastic = stochastic

    def scales(self, rows: Tensor) -> Tensor:
        return rows.abs().amax(1, keepdim=True) / self.most

    def codes(self, scaled: Tensor) -> Tensor:
        rounded = (scaled + torch.rand_like(scaled)).floor() if self.stochastic else scaled.round()
        return (rounded.clamp(-self.most, self.most) + self.most).to(torch.uint8)

    def values(self, codes: Tensor) -> Tensor:
        return codes.float() - self.most


class Qsgd(Integers):
    """Compresses values to levels of the block's Euclidean length, rounded at random without bias."""

    def __init__(self, levels: int = 127, block: int = 512) -> None:
        super().__init__(8, block, stochastic=True)
        self.levels = levels

    def scales(self, rows: Tensor) -> Tensor:
        return rows.norm(dim=1, keepdim=True) / self.levels


class Float8(BlockQuantizer):
    """Compresses values to torch's own 8-bit types."""

    def __init__(self, dtype: torch.dtype, block: int = 256) -> None:
        super().__init__(8, block)
        self.dtype = dtype

    def scales(self, rows: Tensor) -> Tensor:
        return rows.abs().amax(1, keepdim=True) / torch.finfo(self.dtype).max

    def codes(self, scaled: Tensor) -> Tensor:
        return scaled.to(self.dtype).view(torch.uint8)

    def values(self, codes: Tensor) -> Tensor:
        return codes.view(self.dtype).float()


class Float4(BlockQuantizer):
    """Compresses values to one of the eight magnitudes of e2m1, and a sign."""

    MAGNITUDES = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
    BETWEEN = (MAGNITUDES[1:] + MAGNITUDES[:-1]) / 2

    def __init__(self, block: int = 256) -> None:
        super().__init__(4, block)

    def scales(self, rows: Tensor) -> Tensor:
        return rows.abs().amax(1, keepdim=True) / 6

    def codes(self, scaled: Tensor) -> Tensor:
        return torch.bucketize(scaled.abs(), self.BETWEEN).to(torch.uint8) + 8 * (scaled < 0).to(torch.uint8)

    def values(self, codes: Tensor) -> Tensor:
        magnitude = self.MAGNITUDES[(codes & 7).long()]
        return torch.where(codes < 8, magnitude, -magnitude)


class DynamicTree(BlockQuantizer):
    """The 128 magnitudes of an 8-bit dynamic tree and a sign."""

    MAGNITUDES = torch.cat(
        [
            torch.zeros(1),
            *((torch.arange(2**n) + 0.5) * 0.9 / 2**n * 10.0 ** (n - 6) + 10.0 ** (n - 7) for n in range(7)),
        ]
    )
    BETWEEN = (MAGNITUDES[1:] + MAGNITUDES[:-1]) / 2

    def __init__(self, block: int = 4096) -> None:
        super().__init__(8, block)

    def scales(self, rows: Tensor) -> Tensor:
        return rows.abs().amax(1, keepdim=True)

    def codes(self, scaled: Tensor) -> Tensor:
        return torch.bucketize(scaled.abs(), self.BETWEEN).to(torch.uint8) + 128 * (scaled < 0).to(torch.uint8)

    def values(self, codes: Tensor) -> Tensor:
        magnitude = self.MAGNITUDES[(codes & 127).long()]
        return torch.where(codes < 128, magnitude, -magnitude)


class EfSignSgd(BlockQuantizer):
    """Compresses a block to its mean magnitude, and signs."""

    is_mean = True

    def __init__(self, block: int = 32768) -> None:
        super().__init__(1, block)

    def scales(self, rows: Tensor) -> Tensor:
        return rows.abs().mean(1, keepdim=True)

    def codes(self, scaled: Tensor) -> Tensor:
        return (scaled < 0).to(torch.uint8)

    def values(self, codes: Tensor) -> Tensor:
        return 1 - 2 * codes.float()


class Halves(Compressor):
    """Converts each value to another type of torch, such as bfloat16."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype

    def compress(self, tensor: Tensor) -> Compressed:
        return (tensor.to(self.dtype),)

    def decompress(self, compressed: Compressed, count: int) -> Tensor:
        return compressed[0].float()

    def pack(self, compressed: Compressed) -> Message:
        return compressed

    def unpack(self, message: Message, count: int) -> Compressed:
        return message


class Natural(Compressor):
    """Rounds each value at random, without bias, to a power of two: an exponent of eight bits and a sign."""

    def compress(self, tensor: Tensor) -> Compressed:
        magnitude = tensor.abs()
        fraction, exponent = torch.frexp(magnitude)  # the fraction is at least 1/2
        up = (torch.rand_like(magnitude) < 2 * fraction - 1).to(torch.int32)
        code = torch.where(magnitude > 0, exponent + up + 126, torch.zeros((), dtype=torch.int32)).clamp(0, 254)
        return code.to(torch.uint8), (tensor < 0).to(torch.uint8)

    def decompress(self, compressed: Compressed, count: int) -> Tensor:
        code, negative = compressed
        magnitude = torch.where(code > 0, torch.exp2(code.float() - 127), torch.zeros(()))
        return torch.where(negative.bool(), -magnitude, magnitude)

    def pack(self, compressed: Compressed) -> Message:
        code, negative = compressed
        return code, pack_bits(negative, 1)

    def unpack(self, message: Message, count: int) -> Compressed:
        code, packed = message
        return code, unpack_bits(packed, 1, count)
