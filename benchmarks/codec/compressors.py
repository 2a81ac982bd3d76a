# SPDX-License-Identifier: Apache-2.0
"""The compressors of plain_torch.py: codecs without error feedback."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TypeAlias

import torch
from torch import Tensor

#: The compressed form of a tensor.
Compressed: TypeAlias = tuple[Tensor, ...]
#: The compressed form in the bytes that are sent.
Message: TypeAlias = tuple[Tensor, ...]


def pack_bits(codes: Tensor, bits: int) -> Tensor:
    """Packs numbers below 2^bits (uint8) into bytes; the first number has the lowest bits."""
    per_byte = 8 // bits
    if len(codes) % per_byte:
        codes = torch.nn.functional.pad(codes, (0, -len(codes) % per_byte))
    columns = codes.view(-1, per_byte)
    packed = columns[:, 0].clone()
    for position in range(1, per_byte):
        packed |= columns[:, position] << bits * position
    return packed


def unpack_bits(packed: Tensor, bits: int, count: int) -> Tensor:
    """Unpacks the numbers of `pack_bits`."""
    shifts = torch.arange(0, 8, bits, dtype=torch.uint8)
    return (packed.unsqueeze(1) >> shifts).bitwise_and((1 << bits) - 1).view(-1)[:count]


class Compressor(ABC):
    """Compresses one-dimensional float32 tensors, without memory between steps."""

    @abstractmethod
    def compress(self, tensor: Tensor) -> Compressed:
        """Compresses a tensor, and does not change it."""

    @abstractmethod
    def decompress(self, compressed: Compressed, count: int) -> Tensor:
        """The decompressed tensor of `count` elements."""

    @abstractmethod
    def pack(self, compressed: Compressed) -> Message:
        """The message of a compressed tensor, in as few bytes as possible."""

    @abstractmethod
    def unpack(self, message: Message, count: int) -> Compressed:
        """The parts of the compressed form that `decompress` needs, from a message."""


class Quantizer(Compressor):
    """Compresses each element to a code of `bits` bits (uint8). The compressed form begins with values that describe
    the codes.
    """

    def __init__(self, bits: int) -> None:
        self.bits = bits

    def pack(self, compressed: Compressed) -> Message:
        *description, code = compressed
        return *description, pack_bits(code, self.bits)

    def unpack(self, message: Message, count: int) -> Compressed:
        *description, packed = message
        return *description, unpack_bits(packed, self.bits, count)


class Onebit(Quantizer):
    """Compresses to the mean of the negative values, the mean of all other values, and a mask of the other values."""

    def __init__(self) -> None:
        super().__init__(1)

    def compress(self, tensor: Tensor) -> Compressed:
        sign = tensor >= 0
        positive, negative = tensor[sign], tensor[~sign]
        high = positive.sum() / max(len(positive), 1)
        low = negative.sum() / max(len(negative), 1)
        return torch.stack((low, high)), sign.to(torch.uint8)

    def decompress(self, compressed: Compressed, count: int) -> Tensor:
        (low, high), sign = compressed
        return torch.where(sign.bool(), high, low)


class Tbq(Quantizer):
    """Compresses each value to 2 (at least the threshold), 0 (at most the negative threshold) or 1."""

    def __init__(self, threshold: float) -> None:
        super().__init__(2)
        self.threshold = threshold

    def compress(self, tensor: Tensor) -> Compressed:
        up = tensor >= self.threshold
        down = tensor <= -self.threshold
        return (1 + up.to(torch.uint8) - down.to(torch.uint8),)

    def decompress(self, compressed: Compressed, count: int) -> Tensor:
        (code,) = compressed
        return (code.float() - 1) * self.threshold


class Terngrad(Quantizer):
    """Compresses to the least value, the distance of two levels, and each element's level number."""

    def __init__(self, bitwidth: int, stochastic: bool) -> None:
        super().__init__(bitwidth)
        self.stochastic = stochastic

    def compress(self, tensor: Tensor) -> Compressed:
        levels = 2**self.bits - 1
        least, greatest = tensor.min(), tensor.max()
        span = (greatest - least).item()
        scaled = (tensor - least) * (levels / span if span > 0 else 0.0)
        if self.stochastic:
            below = scaled.floor()
            chance = torch.empty_like(tensor).uniform_()
            level = below + (chance < scaled - below).float()
        else:
            level = scaled.round()
        # Rounding may scale the greatest value slightly beyond the last level.
        code = level.clamp(max=levels).to(torch.uint8)
        return torch.stack((least, torch.tensor(span / levels))), code

    def decompress(self, compressed: Compressed, count: int) -> Tensor:
        levels, code = compressed
        return code.float() * levels[1] + levels[0]


class Largest(Compressor):
    """Compresses to the values above a sampled threshold, their ascending indices, and their mask."""

    def __init__(self, count: int, ratio: float, sample_rate: float) -> None:
        self.ratio = ratio
        self.wanted = math.ceil(count * ratio)
        self.samples = min(count, max(math.ceil(count * sample_rate), math.ceil(64 / ratio)))

    def compress(self, tensor: Tensor) -> Compressed:
        magnitude = tensor.abs()
        sample = magnitude
        if self.samples < len(tensor):
            index = torch.empty(self.samples, dtype=torch.float64).uniform_(0, len(tensor)).long()
            sample = magnitude[index]
        threshold = torch.topk(sample, math.ceil(self.samples * self.ratio)).values.min()
        mask = magnitude >= threshold
        for _ in range(10):
            chosen_by_wanted = int(mask.sum()) / self.wanted
            if 0.7 <= chosen_by_wanted <= 1.3:
                break
            threshold = threshold * (1.3 if chosen_by_wanted > 1 else 0.7)
            mask = magnitude >= threshold
        (index,) = torch.where(mask)
        return tensor[index], index, mask

    def decompress(self, compressed: Compressed, count: int) -> Tensor:
        value, index, *_ = compressed
        return torch.zeros(count).scatter(0, index, value)

    def pack(self, compressed: Compressed) -> Message:
        value, index, _ = compressed
        return value, index.to(torch.int32)

    def unpack(self, message: Message, count: int) -> Compressed:
        value, index = message
        return value, index.long()
