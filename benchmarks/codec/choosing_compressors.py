# SPDX-License-Identifier: Apache-2.0
"""The compressors of plain_torch.py that send some values with their indices."""

from __future__ import annotations

import math
from abc import abstractmethod

import torch
from torch import Tensor

from benchmarks.codec.compressors import Compressed, Compressor, Message


class Choosing(Compressor):
    """Compresses a tensor to the chosen values and their ascending indices."""

    @abstractmethod
    def choose(self, tensor: Tensor) -> Tensor:
        """The ascending indices of the chosen values."""

    def compress(self, tensor: Tensor) -> Compressed:
        index = self.choose(tensor)
        return tensor[index], index

    def decompress(self, compressed: Compressed, count: int) -> Tensor:
        value, index = compressed
        return torch.zeros(count).scatter(0, index, value)

    def pack(self, compressed: Compressed) -> Message:
        value, index = compressed
        return value, index.to(torch.int32)

    def unpack(self, message: Message, count: int) -> Compressed:
        value, index = message
        return value, index.long()


class TopK(Choosing):
    """Chooses the values of the greatest magnitudes."""

    def __init__(self, ratio: float) -> None:
        self.ratio = ratio

    def choose(self, tensor: Tensor) -> Tensor:
        return tensor.abs().topk(math.ceil(len(tensor) * self.ratio), sorted=False).indices.sort().values


class RandomK(Choosing):
    """Chooses as many values as TopK, at random places."""

    def __init__(self, ratio: float) -> None:
        self.ratio = ratio

    def choose(self, tensor: Tensor) -> Tensor:
        return torch.randperm(len(tensor))[: math.ceil(len(tensor) * self.ratio)].sort().values


class Threshold(Choosing):
    """Chooses the values of at least a magnitude; if they exceed a share of all values, the greatest of them."""

    def __init__(self, threshold: float, ratio: float) -> None:
        self.threshold = threshold
        self.ratio = ratio

    def choose(self, tensor: Tensor) -> Tensor:
        (index,) = torch.where(tensor.abs() >= self.threshold)
        most = math.ceil(len(tensor) * self.ratio)
        if len(index) <= most:
            return index
        greatest = tensor[index].abs().topk(most, sorted=False).indices
        return index[greatest].sort().values
